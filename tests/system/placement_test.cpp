// SPDX-License-Identifier: Apache-2.0
//
// Goal: pages are on the node that was asked for, by the library's witnesses and by another; and
// where the kernel's calls are forbidden or limits are small, memory still comes and says what it
// went without.
// Method: real pools on every node; child processes under a seccomp filter, or as a user with
// little to lock.

#include "memory/placement.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "unit/cuda_scenario_run.hpp"

namespace numapool {
namespace {

using test::run_scenario;
using testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::size_t page = 4096;

std::string numa_maps() {
  std::ifstream file("/proc/self/numa_maps");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

buffer allocate_on(worker_pool& pool, node_id node, bind_policy bind) {
  request what;
  what.size_bytes = 16 * mib;
  what.node = node;
  what.bind = bind;
  what.pin = pin_policy::none;
  what.verify = verify_policy::full;
  return pool.allocate(what);
}

TEST(RealPlacement, IsOnEveryNodeThatIsAskedFor) {
  worker_pool pool;
  for (const node_info& node : pool.topology().nodes()) {
    if (!node.allowed_memory) {
      continue;
    }
    for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict}) {
      const buffer held = allocate_on(pool, node.id, bind);
      if (held.placement().by == witness::none) {
        GTEST_SKIP() << "SKIPPED: nothing on this kernel says where pages are: "
                     << held.placement().error.message();
      }
      EXPECT_EQ(held.placement().share_on_node, 1.0) << node.id << ' ' << name(bind);
      EXPECT_EQ(held.node_reached(), node.id);
      EXPECT_EQ(held.placement().pages_checked, held.mapped_bytes() / page);
    }
  }
}

TEST(RealPlacement, FollowsTheWorkersWhereNoPolicyIsSet) {
  worker_pool pool;
  if (pool.topology().cpu_node_count() < 2) {
    GTEST_SKIP() << "SKIPPED: this machine has one node, so nothing could go to a wrong one";
  }
  for (const node_info& node : pool.topology().nodes()) {
    if (node.allowed_memory && !node.usable_cpus.empty()) {
      EXPECT_EQ(allocate_on(pool, node.id, bind_policy::none).node_reached(), node.id);
    }
  }
}

TEST(RealPlacement, AgreesWithNumaMaps) {
  const std::string probe = numa_maps();
  if (probe.empty()) {
    GTEST_SKIP() << "SKIPPED: this kernel has no numa_maps";
  }
  worker_pool pool;
  request what;
  what.size_bytes = 8 * mib;
  what.node = pool.topology().nearest_memory_node(pool.topology().nodes().front().id);
  what.pin = pin_policy::none;
  what.verify = verify_policy::full;
  for (const page_policy pages : {page_policy::base, page_policy::thp}) {
    what.pages = pages;
    const buffer held = pool.allocate(what);
    const auto begin = reinterpret_cast<std::uintptr_t>(held.data());
    const auto second =
        memory::read_numa_maps(numa_maps(), begin, begin + held.mapped_bytes(), page);
    ASSERT_EQ(second.size(), held.placement().by_node.size());
    for (std::size_t i = 0; i < second.size(); ++i) {
      EXPECT_EQ(second[i].node, held.placement().by_node[i].node);
      EXPECT_EQ(second[i].pages, held.placement().by_node[i].pages);
    }
  }
}

// ---- what the kernel forbids

TEST(Seccomp, ThatDeniesTheNumaCallsLeavesAWorkingAllocatorThatSaysSo) {
  for (const std::string errno_name : {"EPERM", "ENOSYS"}) {
    const auto child = run_scenario("", ALLOCATE_SCENARIO, "seccomp " + errno_name);
    ASSERT_EQ(child.status, 0) << child.text;
    const std::string number = errno_name == "EPERM" ? "1" : "38";
    EXPECT_EQ(child.value("allocated"), "16777216") << child.text;
    EXPECT_EQ(child.value("bind_error"), number);
    EXPECT_EQ(child.value("bind_obtained"), "first-touch");
    EXPECT_THAT(child.value("bind_reason"), HasSubstr("refused the memory policy"));
    EXPECT_EQ(child.value("witness"), "numa_maps") << child.text;
    EXPECT_EQ(child.value("witness_error"), number);
    EXPECT_EQ(child.value("share"), "1");
    EXPECT_EQ(child.value("strict"), "allocated")
        << "first touch by pinned workers, verified in full: " << child.text;
    EXPECT_EQ(child.value("strict_verified"), "full");
  }
}

TEST(LockLimit, IsSaidByAnAutomaticPinAndRefusesALockThatWasAskedFor) {
  const auto child = run_scenario("", ALLOCATE_SCENARIO, "lock-limit");
  if (child.value("skipped") != "") {
    GTEST_SKIP() << "SKIPPED: " << child.value("skipped");
  }
  ASSERT_EQ(child.status, 0) << child.text;
  EXPECT_EQ(child.value("allocated"), "16777216") << child.text;
  EXPECT_EQ(child.value("pin"), "none");
  EXPECT_THAT(child.value("pin_reason"), HasSubstr("RLIMIT_MEMLOCK is 64 KiB"));
  EXPECT_EQ(child.value("mlock"), "memlock_limit");
  EXPECT_THAT(child.value("mlock_message"), HasSubstr("ulimit -l"));
  EXPECT_EQ(child.value("small"), "mlock") << "what fits in the limit is locked";
}

}  // namespace
}  // namespace numapool
