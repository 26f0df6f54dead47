// SPDX-License-Identifier: Apache-2.0

// Goal: where calls are denied or limits are small, first touch by pinned workers still places
// right, the next witness speaks, and the handle says what was gone without.
// Method: guests begun under a container's seccomp profile or as a user without privileges; a
// filter of our own where even numa_maps is hidden.

#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "lab/scenarios/every_node.hpp"
#include "support/numa_calls_denied.hpp"
#include "support/smaps.hpp"

namespace numapool::lab {
namespace {

// As in a container without CAP_SYS_NICE, where mbind, get_mempolicy and move_pages are EPERM, or
// under a kernel without NUMA, where they are ENOSYS.
TEST(DeniedPolicy, LeavesItToFirstTouchAndNumaMaps) {
  const guest here = guest::read();
  worker_pool pool;
  serve_every_node(pool, here, false, 1);
  const buffer held = pool.allocate(ask(*here.usable_nodes().rbegin(), 8 * mib));
  EXPECT_EQ(held.placement().by, witness::numa_maps);
  EXPECT_TRUE(held.policy().error == boost::system::errc::operation_not_permitted ||
              held.policy().error == boost::system::errc::function_not_supported);
}

// No huge pages are asked for and none come; what is filled is filled by touch.
TEST(DeniedAdvice, LeavesBasePagesOnTheirNodes) {
  const guest here = guest::read();
  worker_pool pool;
  serve_every_node(pool, here);
  const buffer held = pool.allocate(ask(*here.usable_nodes().rbegin(), 8 * mib));
  EXPECT_FALSE(held.pages().is_kept_from_children);
  EXPECT_NE(held.pages().reason.find("refused"), std::string::npos) << held.pages().reason;
}

// With CAP_SYS_NICE: all but move_pages works.
TEST(DeniedMovePages, LeavesItToGetMempolicy) {
  const guest here = guest::read();
  worker_pool pool;
  serve_every_node(pool, here, true, 2);
  const buffer held = pool.allocate(ask(*here.usable_nodes().rbegin(), 8 * mib));
  EXPECT_EQ(held.placement().by, witness::get_mempolicy);
  EXPECT_EQ(held.placement().error, boost::system::errc::operation_not_permitted);
}

// Nobody may speak: prefer serves and says that nothing was verified, strict is refused.
TEST(DeniedWitnesses, AreSaidAndRefuseStrict) {
  const guest here = guest::read();
  const int node = *here.usable_nodes().rbegin();
  const std::string maps = "/proc/" + std::to_string(::getpid()) + "/numa_maps";
  ASSERT_EQ(::mount("/dev/null", maps.c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_TRUE(test::deny_numa_calls(EPERM));
  worker_pool pool;
  request what = ask(node, 8 * mib);
  const buffer held = pool.allocate(what);
  EXPECT_EQ(held.placement().by, witness::none);
  EXPECT_EQ(held.placement().pages_checked, 0U);
  EXPECT_TRUE(held.node_reached().is_unknown());
  EXPECT_TRUE(held.placement().error);
  what.bind = bind_policy::strict;
  boost::system::error_code error;
  EXPECT_FALSE(pool.allocate(what, error));
  EXPECT_EQ(error, errc::placement_not_verified);
}

// ---- an unprivileged user

TEST(Unprivileged, PinsWhatItsLimitAllowsOnTheRightNode) {
  ASSERT_NE(::geteuid(), 0U) << "begin this one as another user";
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const bool can_lock = limit.rlim_cur == RLIM_INFINITY;
  const guest here = guest::read();
  worker_pool pool;
  for (const int node : here.usable_nodes()) {
    SCOPED_TRACE("node " + std::to_string(node));
    request what = ask(node, 8 * mib);
    what.pin = pin_policy::automatic;
    const buffer held = pool.allocate(what);
    expect_all_on(held, node);
    EXPECT_EQ(held.pin().obtained, can_lock ? pin_kind::mlock : pin_kind::none);
    EXPECT_EQ(test::status_bytes("VmLck"), can_lock ? held.mapped_bytes() : 0);
    if (can_lock) {
      continue;
    }
    EXPECT_NE(held.pin().reason.find("RLIMIT_MEMLOCK"), std::string::npos) << held.pin().reason;
    what.pin = pin_policy::mlock;
    boost::system::error_code error;
    EXPECT_FALSE(pool.allocate(what, error));
    EXPECT_EQ(error, errc::memlock_limit);
  }
}

}  // namespace
}  // namespace numapool::lab
