// SPDX-License-Identifier: Apache-2.0
//
// Goal: what is handed out is on the node that is asked for, whatever happened to its pages before.
// Method: caches over simulated machines of two nodes, whose own books say where pages are.

#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

#include "pool/blocking.hpp"
#include "support/cache_fixture.hpp"

namespace numapool {
namespace {

using test::ask;
using test::cached_pool;
using test::kib;
using test::mib;
using test::seam_call;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

double share_on(cached_pool& on, const buffer& held, node_id node) {
  const std::size_t pages = held.mapped_bytes() / 4096;
  return static_cast<double>(on.machine.memory().pages_on(held.data(), held.mapped_bytes(), node)) /
         static_cast<double>(pages);
}

TEST(BufferCachePlacement, GivesMemoryOfTheNodeThatIsAskedFor) {
  cached_pool on;
  const std::byte* const on_0 = on.use_once(ask(node_0));
  const buffer of_1 = on.cache->take(ask(node_1));
  EXPECT_NE(of_1.data(), on_0);
  EXPECT_EQ(share_on(on, of_1, node_1), 1);
  EXPECT_EQ(on.cache->take(ask(node_0)).data(), on_0);
}

TEST(BufferCachePlacement, KeepsNothingThatSpilledToAnotherNode) {
  cached_pool on;
  on.machine.memory().misplace_on(node_1);
  buffer spilled = on.cache->take(ask(node_0));
  ASSERT_EQ(share_on(on, spilled, node_1), 1);
  on.machine.memory().misplace_on({});
  on.cache->give(std::move(spilled));
  EXPECT_EQ(on.cache->stats().kept.buffers, 0U);
  EXPECT_EQ(on.cache->stats().refused.buffers, 1U);
  EXPECT_EQ(on.cache->stats().refused.bytes, 4 * mib);
  EXPECT_EQ(share_on(on, on.cache->take(ask(node_0)), node_0), 1);
}

TEST(BufferCachePlacement, LooksWhereNoPolicyHoldsThePages) {
  cached_pool on;
  request what = ask(node_0);
  what.bind = bind_policy::none;
  buffer moved = on.cache->take(what);
  on.machine.memory().migrate(moved.data(), 3 * mib, node_1);
  on.cache->give(std::move(moved));
  EXPECT_EQ(on.cache->stats().refused.buffers, 1U);

  buffer partly = on.cache->take(what);
  const std::byte* const where = partly.data();
  on.machine.memory().migrate(partly.data(), 1 * mib, node_1);
  on.cache->give(std::move(partly));
  const buffer again = on.cache->take(what);
  EXPECT_EQ(again.data(), where) << "most of it is where it was preferred";
  EXPECT_LT(again.placement().share_on_node, 1) << "and the handle says so";
}

// migrate_pages(2), a cpuset with memory_migrate, swap: a policy holds nothing against them.
TEST(BufferCachePlacement, LooksWhereAPolicyHeldThePagesToo) {
  cached_pool on;
  for (const auto verify : {verify_policy::sample, verify_policy::full}) {
    for (const auto bind : {bind_policy::prefer, bind_policy::strict}) {
      request what = ask(node_0);
      what.bind = bind;
      what.verify = verify;
      buffer moved = on.cache->take(what);
      on.machine.memory().migrate(moved.data(), moved.mapped_bytes(), node_1);
      on.cache->give(std::move(moved));
      EXPECT_EQ(on.cache->stats().kept.buffers, 0U);
      EXPECT_EQ(share_on(on, on.cache->take(what), node_0), 1);
    }
  }
  EXPECT_EQ(on.cache->stats().refused.buffers, 4U);
}

TEST(BufferCachePlacement, LeavesWhatAFullLookHasSaid) {
  cached_pool on;
  request what = ask(node_0);
  what.pages = page_policy::base;
  what.verify = verify_policy::full;
  on.use_once(what);
  const std::size_t asked = on.machine.memory().queries();
  on.use_once(what);
  EXPECT_EQ(on.machine.memory().queries() - asked, 64U) << "a sample";
  const buffer again = on.cache->take(what);
  EXPECT_EQ(again.placement().verified, verify_policy::full);
  EXPECT_EQ(again.placement().pages_checked, 1024U);
}

TEST(BufferCachePlacement, LooksWhereNobodyHasLooked) {
  cached_pool on;
  request what = ask(node_0);
  what.verify = verify_policy::off;
  on.machine.memory().misplace_on(node_1);
  buffer spilled = on.cache->take(what);
  EXPECT_TRUE(spilled.node_reached().is_unknown());
  on.cache->give(std::move(spilled));
  EXPECT_EQ(on.cache->stats().kept.buffers, 0U);
  on.machine.memory().misplace_on({});
  on.cache->give(on.cache->take(what));
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
}

TEST(BufferCachePlacement, KeepsNothingPartlyElsewhereForStrictRequests) {
  cached_pool on;
  on.machine.faults().fail_all(seam_call::bind, EPERM);  // first touch alone
  request what = ask(node_0);
  what.bind = bind_policy::strict;
  buffer partly = on.cache->take(what);
  ASSERT_EQ(partly.policy().obtained, bind_kind::first_touch);
  on.machine.memory().migrate(partly.data() + 2 * mib, 4 * kib, node_1);
  on.cache->give(std::move(partly));
  EXPECT_EQ(on.cache->stats().refused.buffers, 1U);
  const std::byte* const whole = on.use_once(what);
  EXPECT_EQ(on.cache->take(what).data(), whole);
}

TEST(BufferCachePlacement, KeepsNothingThatNobodyCanPlace) {
  for (const bool has_one_node : {false, true}) {
    cached_pool on({}, {},
                   has_one_node ? test::machine_plan::one_node() : test::machine_plan::two_nodes());
    on.machine.faults().fail_all(seam_call::query_nodes, EPERM);
    on.machine.faults().fail_all(seam_call::query_node, EPERM);
    on.machine.files().remove("/proc/self/numa_maps");
    on.cache->give(on.cache->take(ask(node_0)));
    EXPECT_EQ(on.cache->stats().kept.buffers, has_one_node ? 1U : 0U);
  }
}

TEST(BufferCachePlacement, KeepsTheNearestMemoryOfANodeThatHasNone) {
  cached_pool on({}, {}, test::machine_plan::cpu_only());
  const std::byte* const first = on.use_once(ask(node_id(2)));
  const buffer again = on.cache->take(ask(node_id(2)));
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.node_reached(), node_1);
}

TEST(BufferCachePlacement, KeepsNothingOfOtherMachinesOrRoutes) {
  cached_pool on;
  cached_pool other;
  on.cache->give(other.pool->allocate(ask(node_0)));
  on.cache->give(buffer());
  detail::pool_core& core = pool_access::core(*on.pool);
  on.cache->give(detail::allocate_and_wait(core, ask(node_0), route::plain_gate_off));
  EXPECT_EQ(on.cache->stats().refused.buffers, 2U);
  EXPECT_EQ(on.cache->stats().kept.buffers, 0U);
  EXPECT_EQ(other.machine.memory().mappings(), 0U);
}

}  // namespace
}  // namespace numapool
