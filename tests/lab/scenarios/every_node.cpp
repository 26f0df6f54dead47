// SPDX-License-Identifier: Apache-2.0
#include "lab/scenarios/every_node.hpp"

#include <string>

#include <gtest/gtest.h>

namespace numapool::lab {
namespace {

constexpr std::size_t size_bytes = 8 * mib;

struct expectation {
  const guest& here;
  bool bind_works;
  std::size_t witnesses;

  /// Where the pages must be; -1 where the kernel may choose.
  [[nodiscard]] int pages_node(int node, bind_policy bind) const {
    const std::set<int> memory = here.memory_nodes();
    const int workers = here.nearest(node, here.usable_nodes());
    if (bind == bind_policy::none || !bind_works) {
      return memory.contains(workers) ? workers : -1;
    }
    return here.nearest(node, memory);
  }
};

std::string described(int node, page_policy pages, bind_policy bind) {
  return "node " + std::to_string(node) + (pages == page_policy::base ? ", base" : ", thp") + ", " +
         std::string(name(bind));
}

// Strict, and the node cannot give its own memory.
void expect_refused(worker_pool& pool, const expectation& expected, const request& what, int node) {
  boost::system::error_code error;
  const buffer held = pool.allocate(what, error);
  EXPECT_TRUE(error) << "strict took memory from elsewhere";
  EXPECT_FALSE(held);
  if (expected.here.nodes.at(node).memory_bytes != 0 && expected.bind_works) {
    EXPECT_EQ(error, errc::node_not_allowed) << held.why().message;
  }
}

void expect_served(worker_pool& pool, const expectation& expected, const request& what, int node) {
  const bool is_strict = what.bind == bind_policy::strict;
  const int wanted = expected.pages_node(node, what.bind);
  if (is_strict && wanted != node) {
    expect_refused(pool, expected, what, node);
    return;
  }
  boost::system::error_code error;
  const buffer held = pool.allocate(what, error);
  ASSERT_FALSE(error) << held.why().message;
  EXPECT_EQ(static_cast<int>(held.node_of_workers().value()),
            expected.here.nearest(node, expected.here.usable_nodes()));
  const test::page_census seen = expect_handle_is_right(held, expected.witnesses);
  EXPECT_EQ(seen.not_resident, 0U);
  for (const auto& [id, count] : seen.by_node) {
    EXPECT_TRUE(expected.here.allowed_nodes.contains(id)) << count << " pages on node " << id;
    EXPECT_TRUE(wanted == -1 || id == wanted) << count << " pages on node " << id;
  }
  const bind_kind obtained = held.policy().obtained;
  if (!expected.bind_works && what.bind != bind_policy::none) {
    EXPECT_EQ(obtained, bind_kind::first_touch);
    EXPECT_TRUE(held.policy().error);
  }
  if (wanted != node) {
    EXPECT_NE(held.policy().reason + held.pages().reason, "") << "pages are elsewhere, unsaid";
  }
}

}  // namespace

void serve_every_node(worker_pool& pool, const guest& here, bool bind_works,
                      std::size_t witnesses) {
  const expectation expected{here, bind_works, witnesses};
  for (const auto& [node, facts] : here.nodes) {
    if (facts.cpus.empty() && facts.memory_bytes == 0) {
      continue;  // an empty shell: nothing to ask for
    }
    for (const page_policy pages : {page_policy::base, page_policy::thp}) {
      for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict, bind_policy::none}) {
        SCOPED_TRACE(described(node, pages, bind));
        request what = ask(node, size_bytes);
        what.pages = pages;
        what.bind = bind;
        expect_served(pool, expected, what, node);
      }
    }
  }
  expect_workers_keep_to_their_nodes(here);
}

}  // namespace numapool::lab
