// SPDX-License-Identifier: Apache-2.0
//
// Goal: on every kind of machine a request ends where its policy says, in resident, pinned pages,
// and its handle says what was obtained at each step; or it fails with a typed error and nothing is
// left.
// Method: the steps of an allocation on simulated machines. Every test ends with the machine's own
// check for leftovers.

#include <cerrno>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/allocation_fixture.hpp"

namespace numapool::memory {
namespace {

// ---- every machine, policy and pin

struct combination {
  const char* name;
  machine_plan (*plan)();
  std::vector<std::uint32_t> nodes;
};

const std::vector<combination>& machines() {
  static const std::vector<combination> all{
      {"one node", &machine_plan::one_node, {0}},
      {"two nodes", &machine_plan::two_nodes, {0, 1}},
      {"memory only", &machine_plan::memory_only, {2}},
      {"cpu only", &machine_plan::cpu_only, {0, 1}},
      {"gpu memory", &machine_plan::gpu_memory, {0, 2, 10}},
      {"sparse", &machine_plan::sparse, {3, 64}},
      {"no nodes", &machine_plan::no_nodes, {0}},
  };
  return all;
}

void expect_placed(fake_machine& machine, const request& what, const std::string& label) {
  outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << label << ": " << done.why.message;
  const buffer& held = done.result;
  const bool has_cpus = !machine.nodes()->find(what.node)->usable_cpus.empty();
  if (what.bind != bind_policy::none || has_cpus) {  // without a policy, where its workers are
    EXPECT_DOUBLE_EQ(share(machine, held, what.node), 1.0) << label;
  }
  if (what.bind != bind_policy::none) {
    EXPECT_EQ(held.node_reached(), what.node) << label;
    EXPECT_DOUBLE_EQ(held.placement().share_on_node, 1.0) << label;
    EXPECT_EQ(held.policy().obtained,
              what.bind == bind_policy::strict ? bind_kind::bind : bind_kind::prefer)
        << label;
  }
  EXPECT_EQ(machine.memory().resident_pages(held.data(), held.mapped_bytes()),
            held.mapped_bytes() / 4096)
      << label;
  EXPECT_TRUE(machine.memory().is_kept_from_children(held.data())) << label;
  const pin_kind pinned = what.pin == pin_policy::none    ? pin_kind::none
                          : what.pin == pin_policy::mlock ? pin_kind::mlock
                                                          : pin_kind::cuda;
  EXPECT_EQ(held.pin().obtained, pinned) << label << ": " << held.pin().reason;
  EXPECT_EQ(machine.memory().locked_bytes(), pinned == pin_kind::mlock ? held.mapped_bytes() : 0U)
      << label;
  EXPECT_EQ(held.registrations().size(), pinned == pin_kind::cuda ? 1U : 0U) << label;
}

TEST(EveryMachine, PlacesAndPinsUnderEveryPolicyAndPin) {
  for (const combination& where : machines()) {
    for (const std::uint32_t id : where.nodes) {
      for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict, bind_policy::none}) {
        for (const pin_policy pin :
             {pin_policy::automatic, pin_policy::cuda, pin_policy::mlock, pin_policy::none}) {
          fake_machine machine(where.plan());
          machine.add_devices({node_id(id)});
          request what = ask(node_id(id));
          what.bind = bind;
          what.pin = pin;
          expect_placed(machine, what,
                        std::string(where.name) + ", " + to_string(what.node) + ", " +
                            std::string(name(bind)) + ", " + std::string(name(pin)));
          expect_nothing_left(machine);
        }
      }
    }
  }
}

// ---- nodes

TEST(Allocation, BindsToAMemoryOnlyNodeFromTheNearestCpus) {
  fake_machine machine(machine_plan::memory_only());
  const outcome done = allocate(machine, ask(node_2));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.node_of_workers(), node_1);
  EXPECT_EQ(done.result.node_requested(), node_2);
  EXPECT_DOUBLE_EQ(share(machine, done.result, node_2), 1.0);
}

TEST(Allocation, TakesMemoryFromTheNearestNodeWhereItsOwnHasNoneAndSaysSo) {
  fake_machine machine(machine_plan::cpu_only());
  const outcome done = allocate(machine, ask(node_2));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.node_of_workers(), node_2);
  EXPECT_EQ(done.result.node_reached(), node_1);
  EXPECT_EQ(done.result.placement().share_on_node, 0.0);
  EXPECT_EQ(done.result.policy().obtained, bind_kind::prefer);
  EXPECT_THAT(done.result.policy().reason, HasSubstr("the nearest that does is node 1"));
}

TEST(Allocation, IsRefusedStrictlyOnANodeWithoutMemory) {
  fake_machine machine(machine_plan::cpu_only());
  request what = ask(node_2);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::node_not_allowed, operation::resolve);
}

TEST(Allocation, IsRefusedStrictlyOnANodeThatIsNotAllowedAndElsewhereOtherwise) {
  machine_plan plan = machine_plan::two_nodes();
  plan.allowed_nodes = "0";
  fake_machine machine(plan);
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::node_not_allowed, operation::resolve);
  what.bind = bind_policy::prefer;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.node_reached(), node_0);
  EXPECT_THAT(done.result.policy().reason, HasSubstr("node 1 gives this process no memory"));
}

TEST(Allocation, UsesAGpusMemoryOnlyWhenItIsNamed) {
  fake_machine machine(machine_plan::gpu_memory());
  machine.memory().set_free(node_0, 20 * gib);
  const outcome plain = allocate(machine, ask(node_0));
  ASSERT_TRUE(static_cast<bool>(plain.result));
  EXPECT_DOUBLE_EQ(share(machine, plain.result, node_0), 1.0);
  const outcome named = allocate(machine, ask(node_2));
  ASSERT_TRUE(static_cast<bool>(named.result)) << named.why.message;
  EXPECT_DOUBLE_EQ(share(machine, named.result, node_2), 1.0);
}

TEST(Allocation, SpillsWhenThePreferredNodeIsFullAndSaysHowMuch) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 1 * mib);
  request what = ask(node_0);
  what.pages = page_policy::base;
  what.verify = verify_policy::full;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_DOUBLE_EQ(done.result.placement().share_on_node, 0.25);
  EXPECT_EQ(done.result.node_reached(), node_1);
  EXPECT_EQ(done.result.node_requested(), node_0);
}

// ---- strictness

TEST(Strict, IsRefusedBeforeAPageIsTouchedWhereTheNodeIsTooFull) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_1, 1 * gib);  // the reserve of 64 GiB is more
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::out_of_node_memory, operation::admit);
  EXPECT_EQ(machine.faults().count(seam_call::map), 0U);
}

TEST(Strict, IsVerifiedInFullWhereThePolicyIsDenied) {
  for (const int denial : {EPERM, ENOSYS}) {
    fake_machine machine(machine_plan::two_nodes());
    machine.faults().fail_all(seam_call::bind, denial);
    request what = ask(node_1);
    what.bind = bind_policy::strict;
    what.verify = verify_policy::off;
    what.pages = page_policy::base;
    const outcome done = allocate(machine, what);
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.policy().obtained, bind_kind::first_touch);
    EXPECT_EQ(done.result.policy().error.value(), denial);
    EXPECT_THAT(done.result.policy().reason, HasSubstr("refused the memory policy"));
    EXPECT_EQ(done.result.placement().verified, verify_policy::full);
    EXPECT_EQ(done.result.placement().pages_checked, 1024U);
    EXPECT_DOUBLE_EQ(done.result.placement().share_on_node, 1.0);
  }
}

TEST(Strict, FailsWhereThePolicyIsDeniedAndTouchingLandsElsewhere) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::bind, EPERM);
  machine.memory().misplace_on(node_0);
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::placement_not_reached, operation::verify);
}

TEST(Strict, FailsWhereThePolicyIsDeniedAndNobodyCanSayWherePagesAre) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::bind, EPERM);
  machine.faults().fail_all(seam_call::query_nodes, EPERM);
  machine.faults().fail_all(seam_call::query_node, EPERM);
  machine.files().remove("/proc/self/numa_maps");
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::placement_not_verified, operation::verify);
}

TEST(Strict, TrustsTheKernelsBindWhereNobodyCanSayWherePagesAre) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::query_nodes, EPERM);
  machine.faults().fail_all(seam_call::query_node, EPERM);
  machine.files().remove("/proc/self/numa_maps");
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.placement().by, witness::none);
  EXPECT_EQ(done.result.placement().error.value(), EPERM) << "and says that nobody looked";
  EXPECT_TRUE(done.result.node_reached().is_unknown());
}

TEST(Strict, IsRefusedWhereThePolicyIsDeniedAndTheWorkersAreOnAnotherNode) {
  fake_machine machine(machine_plan::memory_only());
  machine.faults().fail_all(seam_call::bind, EPERM);
  request what = ask(node_2);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::policy_denied, operation::bind);
}

TEST(Strict, IsRefusedWhereThePolicyIsDeniedAndTheWorkersAreNotPinned) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::bind, EPERM);
  request what = ask(node_0);
  what.bind = bind_policy::strict;
  direct_options unpinned;
  unpinned.pinned = false;
  expect_refused(machine, what, errc::policy_denied, operation::bind, unpinned);
}

TEST(Strict, IsCheckedAgainAfterALongTermPinThatMovedPages) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  machine.registrar().set_range_check([&](const test::fake_registrar::range& asked) {
    machine.memory().migrate(asked.address, asked.size_bytes, node_0);
  });
  request what = ask(node_1);
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::placement_not_reached, operation::verify);
}

TEST(Prefer, SaysThatOnlyFirstTouchPlacesThePagesWhereThePolicyIsDenied) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::bind, EPERM);
  const outcome done = allocate(machine, ask(node_1));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.policy().obtained, bind_kind::first_touch);
  EXPECT_EQ(done.result.policy().error.value(), EPERM);
  EXPECT_EQ(done.result.node_reached(), node_1);
  EXPECT_EQ(done.result.placement().verified, verify_policy::sample);
}

TEST(Prefer, SaysThatNothingPlacesThePagesWhereTheWorkersAreElsewhereToo) {
  fake_machine machine(machine_plan::memory_only());
  machine.faults().fail_all(seam_call::bind, EPERM);
  const outcome done = allocate(machine, ask(node_2));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.policy().obtained, bind_kind::none);
  EXPECT_EQ(done.result.node_reached(), node_1) << "where the workers touched it";
  EXPECT_THAT(done.result.policy().reason, HasSubstr("workers of node 1 touch the pages first"));
  EXPECT_EQ(done.result.placement().share_on_node, 0.0);
}

TEST(NoPolicy, LeavesThePagesToFirstTouch) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_1);
  what.bind = bind_policy::none;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.policy().obtained, bind_kind::first_touch);
  EXPECT_EQ(machine.faults().count(seam_call::bind), 0U);
  EXPECT_EQ(done.result.node_reached(), node_1);
  EXPECT_EQ(done.result.policy().reason, "");
}

// Seen in guests with a node without CPUs, and with one without memory: the pages were elsewhere,
// and nothing said so.
TEST(NoPolicy, SaysWhyThePagesAreElsewhere) {
  fake_machine without_cpus(machine_plan::memory_only());
  request what = ask(node_2);
  what.bind = bind_policy::none;
  const outcome done = allocate(without_cpus, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_THAT(done.result.policy().reason,
              HasSubstr("no CPU of node 2 may be used here, so workers of node 1"));
  fake_machine without_memory(machine_plan::cpu_only());
  const outcome other = allocate(without_memory, what);
  ASSERT_TRUE(static_cast<bool>(other.result)) << other.why.message;
  EXPECT_THAT(other.result.policy().reason, HasSubstr("node 2 gives this process no memory"));
}

TEST(Prefer, KeepsBothReasonsWhereThePolicyIsDeniedAndTheNodeHasNoMemory) {
  fake_machine machine(machine_plan::cpu_only());
  machine.faults().fail_all(seam_call::bind, EPERM);
  const outcome done = allocate(machine, ask(node_2));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_THAT(done.result.policy().reason,
              testing::AllOf(HasSubstr("node 2 gives this process no memory"),
                             HasSubstr("refused the memory policy")));
}

}  // namespace
}  // namespace numapool::memory
