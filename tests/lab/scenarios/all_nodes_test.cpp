// SPDX-License-Identifier: Apache-2.0
// Goal: the command line gives every node its own memory, and says so. Method: run it in a guest,
// and compare its JSON with the nodes that the guest was given.

#include <cstddef>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/scenarios/lab_machine.hpp"
#include "system/cli_child.hpp"

namespace numapool::tests {
namespace {

constexpr std::size_t buffer_bytes = 16U << 20U;
constexpr std::size_t base_page_bytes = 4096;

TEST(AllNodes, EachHasItsBufferWithEveryPageOnIt) {
  const cli_result run =
      run_cli({"allocate", "--all-nodes", "--size", "16MiB", "--verify", "full", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const nlohmann::json document = nlohmann::json::parse(run.out);

  node_set reached;
  for (const nlohmann::json& buffer : document.at("buffers")) {
    SCOPED_TRACE(buffer.dump());
    const auto node = buffer.at("node_requested").get<unsigned>();
    reached.insert(node_id(node));
    EXPECT_EQ(buffer.at("node_reached"), node);
    EXPECT_EQ(buffer.at("node_of_workers"), node);
    const nlohmann::json& placement = buffer.at("placement");
    EXPECT_EQ(placement.at("verified"), "full");
    EXPECT_EQ(placement.at("share_on_node"), 1.0);
    EXPECT_EQ(placement.at("pages_checked"), buffer_bytes / base_page_bytes);
    EXPECT_EQ(placement.at("pages_by_node"),
              nlohmann::json({{std::to_string(node), buffer_bytes / base_page_bytes}}));
  }
  EXPECT_EQ(reached, lab_nodes_with_memory());
}

}  // namespace
}  // namespace numapool::tests
