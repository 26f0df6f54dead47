// SPDX-License-Identifier: Apache-2.0

// Goal: page kinds are what the handle says, on the node asked for; a huge page pool that is empty
// there is an error before a page is touched, never SIGBUS.
// Method: guests whose pools and THP mode were set before; smaps and the per-node pool files.

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "lab/scenarios/guest.hpp"
#include "support/smaps.hpp"

namespace numapool::lab {
namespace {

constexpr std::size_t huge_bytes = 2 * mib;

std::size_t free_huge_pages(int node) {
  const std::string text = read_file("/sys/devices/system/node/node" + std::to_string(node) +
                                     "/hugepages/hugepages-2048kB/free_hugepages");
  return text.empty() ? 0 : std::stoul(text);
}

request ask_huge(int node, std::size_t pages, bind_policy bind) {
  request what = ask(node, pages * huge_bytes);
  what.pages = page_policy::huge_2mib;
  what.bind = bind;
  return what;
}

void expect_no_huge_pages(worker_pool& pool, const request& what) {
  boost::system::error_code error;
  const buffer held = pool.allocate(what, error);
  EXPECT_EQ(error, errc::no_huge_pages) << held.why().message;
}

// All that the node has, on the node; and one page more: refused by strict, and spilled by prefer
// where other nodes have it.
void take_all_and_one_more(worker_pool& pool, int node, bind_policy bind, std::size_t elsewhere) {
  wait_for_releases();  // of the test before
  const std::size_t there = free_huge_pages(node);
  if (there != 0) {
    const buffer held = pool.allocate(ask_huge(node, there, bind));
    expect_all_on(held, node);
    EXPECT_EQ(held.pages().kind, page_kind::hugetlb);
    EXPECT_EQ(free_huge_pages(node), 0U);
  }
  wait_for_releases();
  EXPECT_EQ(free_huge_pages(node), there) << "pages were not given back";
  if (bind == bind_policy::strict || elsewhere == 0) {
    expect_no_huge_pages(pool, ask_huge(node, there + 1, bind));
    return;
  }
  const buffer spilled = pool.allocate(ask_huge(node, there + 1, bind));
  const test::page_census seen = expect_handle_is_right(spilled);
  EXPECT_EQ(seen.not_resident, 0U);
  const auto on_node = seen.by_node.find(node);
  EXPECT_EQ(on_node == seen.by_node.end() ? 0 : on_node->second, there * huge_bytes / 4096);
}

TEST(HugePages, ComeFromTheNodesOwnPoolFirst) {
  const std::string told = std::getenv("LAB_HUGE_NODES") ? std::getenv("LAB_HUGE_NODES") : "";
  worker_pool pool;
  std::map<int, std::size_t> pools;
  std::size_t total = 0;
  for (const int node : guest::read().memory_nodes()) {
    pools[node] = free_huge_pages(node);
    total += pools[node];
    EXPECT_EQ(pools[node] != 0, read_list(told).contains(node)) << "a pool is not as was told";
  }
  for (const auto& [node, there] : pools) {
    SCOPED_TRACE("node " + std::to_string(node));
    take_all_and_one_more(pool, node, bind_policy::strict, total - there);
    take_all_and_one_more(pool, node, bind_policy::prefer, total - there);
  }
}

void expect_huge_bytes(const buffer& held, std::size_t bytes) {
  EXPECT_EQ(test::area_of(held.data(), held.mapped_bytes()).bytes["AnonHugePages"], bytes);
  EXPECT_EQ(held.pages().huge_bytes.value_or(SIZE_MAX), bytes);
}

TEST(TransparentHugePages, AreTakenAsTheModeAllowsAndSaid) {
  const std::string mode = read_file("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool is_on = mode.find("[never]") == std::string::npos;
  worker_pool pool;
  for (const int node : guest::read().memory_nodes()) {
    SCOPED_TRACE("node " + std::to_string(node));
    request what = ask(node, 16 * mib);
    what.huge_page_budget = std::chrono::microseconds(0);  // an emulated CPU is slow with all pages
    const buffer automatic = pool.allocate(what);
    expect_all_on(automatic, node);
    expect_huge_bytes(automatic, is_on ? automatic.mapped_bytes() : 0);
    EXPECT_EQ(automatic.pages().kind, is_on ? page_kind::thp : page_kind::base);
    EXPECT_EQ(automatic.pages().reason.empty(), is_on) << automatic.pages().reason;
    what.pages = page_policy::base;
    const buffer base = pool.allocate(what);
    expect_all_on(base, node);
    expect_huge_bytes(base, 0);  // also where the mode is always
    EXPECT_EQ(base.pages().kind, page_kind::base);
  }
}

}  // namespace
}  // namespace numapool::lab
