// SPDX-License-Identifier: Apache-2.0

// Goal: the command line places on every node, and for every device, and says so truly.
// Method: it holds its buffers in a guest while this other process asks the kernel for the node of
// each page, by move_pages(2) and by /proc/PID/numa_maps; the JSON must say the same. What the
// guest was given is compared with what was reached, so that none is left out.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/scenarios/guest.hpp"
#include "lab/scenarios/lab_machine.hpp"
#include "system/cli_child.hpp"

namespace numapool::lab {
namespace {

using nlohmann::json;
using tests::cli_child;

constexpr std::size_t buffer_bytes = 16 * mib;
constexpr std::size_t page_bytes = 4096;

using pages_by_node = std::map<int, std::size_t>;

std::uintptr_t address_of(const json& buffer) {
  return std::stoull(buffer.at("address").get<std::string>(), nullptr, 16);
}

// Page by page. A page that is not resident counts under its negative errno.
pages_by_node ask_move_pages(pid_t holder, const json& buffer) {
  const std::size_t count = buffer.at("mapped_bytes").get<std::size_t>() / page_bytes;
  std::vector<std::uintptr_t> pages(count);
  for (std::size_t i = 0; i < count; ++i) {
    pages[i] = address_of(buffer) + i * page_bytes;
  }
  std::vector<int> nodes(count, -EINVAL);
  EXPECT_EQ(::syscall(SYS_move_pages, holder, count, pages.data(), nullptr, nodes.data(), 0), 0);
  pages_by_node seen;
  for (const int node : nodes) {
    ++seen[node];
  }
  return seen;
}

// The counts of all mappings that begin in the buffer.
pages_by_node ask_numa_maps(pid_t holder, const json& buffer) {
  const std::uintptr_t begin = address_of(buffer);
  const std::uintptr_t end = begin + buffer.at("mapped_bytes").get<std::size_t>();
  pages_by_node seen;
  std::istringstream lines(read_file("/proc/" + std::to_string(holder) + "/numa_maps"));
  for (std::string line; std::getline(lines, line);) {
    const std::uintptr_t mapping = std::stoull(line, nullptr, 16);
    std::istringstream words(mapping >= begin && mapping < end ? line : "");
    for (std::string word; words >> word;) {
      int node = 0;
      std::size_t count = 0;
      if (std::sscanf(word.c_str(), "N%d=%zu", &node, &count) == 2) {
        seen[node] += count;
      }
    }
  }
  return seen;
}

pages_by_node what_it_says(const json& buffer) {
  pages_by_node said;
  for (const auto& [node, count] : buffer.at("placement").at("pages_by_node").items()) {
    said[std::stoi(node)] = count.get<std::size_t>();
  }
  return said;
}

void expect_all_on(pid_t holder, const json& buffer, int node) {
  SCOPED_TRACE(buffer.dump());
  EXPECT_EQ(buffer.at("node_requested"), node);
  EXPECT_EQ(buffer.at("node_reached"), node);
  EXPECT_EQ(buffer.at("node_of_workers"), node);
  EXPECT_EQ(buffer.at("placement").at("verified"), "full");
  EXPECT_EQ(buffer.at("placement").at("share_on_node"), 1.0);
  const pages_by_node all{{node, buffer_bytes / page_bytes}};
  EXPECT_EQ(what_it_says(buffer), all);
  EXPECT_EQ(ask_move_pages(holder, buffer), all);
  EXPECT_EQ(ask_numa_maps(holder, buffer), all);
}

/// `numapool allocate` with a target, which holds what it got until this is gone.
class holding {
 public:
  explicit holding(const std::vector<std::string>& target)
      : child_(command(target)), document_(json::parse(child_.read_document(60), nullptr, false)) {
    EXPECT_TRUE(document_.contains("buffers")) << document_;
  }
  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] json buffers() const { return document_.value("buffers", json::array()); }

 private:
  static std::vector<std::string> command(const std::vector<std::string>& target) {
    std::vector<std::string> words{"allocate", "--size",   "16MiB",  "--verify", "full",
                                   "--json",   "--policy", "strict", "--hold",   "600"};
    words.insert(words.end(), target.begin(), target.end());
    return words;
  }

  cli_child child_;
  json document_;
};

TEST(AllNodes, EachHasItsBufferWithEveryPageOnIt) {
  const holding held({"--all-nodes"});
  node_set reached;
  for (const json& buffer : held.buffers()) {
    const auto node = buffer.at("node_requested").get<unsigned>();
    reached.insert(node_id(node));
    expect_all_on(held.pid(), buffer, static_cast<int>(node));
  }
  EXPECT_EQ(reached, tests::lab_nodes_with_memory());
}

// Each device by its ordinal, which without CUDA is its place in PCI order, and by its address.
TEST(Devices, EachHasItsBufferOnItsNode) {
  const std::vector<guest_gpu> gpus = read_gpus();
  expect_order_to_tell(gpus);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (const std::string& device : {std::to_string(i), gpus[i].address}) {
      SCOPED_TRACE("--device " + device);
      const holding held({"--device", device});
      ASSERT_EQ(held.buffers().size(), 1U);
      expect_all_on(held.pid(), held.buffers().at(0), gpus[i].node);
    }
  }
}

}  // namespace
}  // namespace numapool::lab
