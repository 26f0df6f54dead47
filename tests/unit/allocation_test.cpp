// SPDX-License-Identifier: Apache-2.0
//
// Goal: on every kind of machine a request ends where its policy says, in resident, pinned pages, and its handle says what
// was obtained at each step; or it fails with a typed error and nothing is left.
// Method: the steps of an allocation on simulated machines. Every test ends with the machine's own check for leftovers.

#include <cerrno>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/direct_allocation.hpp"

namespace numapool::memory {
namespace {

using test::allocate;
using test::direct_options;
using test::fake_machine;
using test::fake_memory;
using test::gib;
using test::kib;
using test::machine_plan;
using test::mib;
using test::outcome;
using test::seam_call;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr node_id node_0(0);
constexpr node_id node_1(1);
constexpr node_id node_2(2);

request ask(node_id node, std::size_t size_bytes = 4 * mib) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node;
  return what;
}

// The fake's own books: how much of the buffer is on that node.
double share(fake_machine& machine, const buffer& held, node_id node) {
  const std::size_t all = held.mapped_bytes() / 4096;
  return static_cast<double>(machine.memory().pages_on(held.data(), held.mapped_bytes(), node)) /
         static_cast<double>(all);
}

void expect_nothing_left(fake_machine& machine) {
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_EQ(machine.memory().locked_bytes(), 0U);
  EXPECT_THAT(machine.registrar().registered(), IsEmpty());
}

void expect_refused(fake_machine& machine, const request& what, errc code, operation step,
                    const direct_options& options = {}) {
  const outcome done = allocate(machine, what, options);
  EXPECT_EQ(done.why.code, code) << done.why.message;
  EXPECT_EQ(done.why.operation, step) << done.why.message;
  EXPECT_FALSE(done.why.message.empty());
  EXPECT_FALSE(static_cast<bool>(done.result));
  expect_nothing_left(machine);
}

// ---- every machine, policy and pin

struct combination {
  const char* name;
  machine_plan (*plan)();
  std::vector<std::uint32_t> nodes;
};

const std::vector<combination>& machines() {
  static const std::vector<combination> all{
      {"one node", &machine_plan::one_node, {0}},       {"two nodes", &machine_plan::two_nodes, {0, 1}},
      {"memory only", &machine_plan::memory_only, {2}}, {"cpu only", &machine_plan::cpu_only, {0, 1}},
      {"gpu memory", &machine_plan::gpu_memory, {0, 2, 10}}, {"sparse", &machine_plan::sparse, {3, 64}},
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
    EXPECT_EQ(held.policy().obtained, what.bind == bind_policy::strict ? bind_kind::bind : bind_kind::prefer) << label;
  }
  EXPECT_EQ(machine.memory().resident_pages(held.data(), held.mapped_bytes()), held.mapped_bytes() / 4096) << label;
  EXPECT_TRUE(machine.memory().is_kept_from_children(held.data())) << label;
  const pin_kind pinned = what.pin == pin_policy::none    ? pin_kind::none
                          : what.pin == pin_policy::mlock ? pin_kind::mlock
                                                          : pin_kind::cuda;
  EXPECT_EQ(held.pin().obtained, pinned) << label << ": " << held.pin().reason;
  EXPECT_EQ(machine.memory().locked_bytes(), pinned == pin_kind::mlock ? held.mapped_bytes() : 0U) << label;
  EXPECT_EQ(held.registrations().size(), pinned == pin_kind::cuda ? 1U : 0U) << label;
}

TEST(EveryMachine, PlacesAndPinsUnderEveryPolicyAndPin) {
  for (const combination& where : machines()) {
    for (const std::uint32_t id : where.nodes) {
      for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict, bind_policy::none}) {
        for (const pin_policy pin : {pin_policy::automatic, pin_policy::cuda, pin_policy::mlock, pin_policy::none}) {
          fake_machine machine(where.plan());
          machine.add_devices({node_id(id)});
          request what = ask(node_id(id));
          what.bind = bind;
          what.pin = pin;
          expect_placed(machine, what, std::string(where.name) + ", " + to_string(what.node) + ", " +
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
}

// ---- the request itself

TEST(Request, OfZeroBytesIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  expect_refused(machine, ask(node_0, 0), errc::zero_size, operation::resolve);
}

TEST(Request, ThatOverflowsWhenRoundedIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 4095, static_cast<std::size_t>(PTRDIFF_MAX)}) {
    for (const page_policy pages : {page_policy::automatic, page_policy::base, page_policy::huge_1gib}) {
      request what = ask(node_0, size);
      what.pages = pages;
      expect_refused(machine, what, errc::size_overflow, operation::resolve);
    }
  }
}

TEST(Request, ForAnUnknownNodeIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  expect_refused(machine, ask(node_id(7)), errc::unknown_node, operation::resolve);
  expect_refused(machine, ask(node_id::unknown), errc::unknown_node, operation::resolve);
}

TEST(Request, WithANegativeTimeoutIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_0);
  what.timeout = std::chrono::milliseconds(-1);
  expect_refused(machine, what, errc::invalid_option, operation::resolve);
}

TEST(Request, IsRoundedUpToPagesAndNoFurther) {
  fake_machine machine(machine_plan::two_nodes());
  for (const auto& [asked, mapped] : {std::pair{std::size_t{1}, 4 * kib}, std::pair{4 * kib, 4 * kib},
                                      std::pair{5 * mib + 1, 5 * mib + 4 * kib}}) {
    const outcome done = allocate(machine, ask(node_0, asked));
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.size_bytes(), asked);
    EXPECT_EQ(done.result.span().size(), asked);
    EXPECT_EQ(done.result.mapped_bytes(), mapped);
  }
}

// ---- pages

TEST(Pages, AreHugeWhereTheKernelGivesThem) {
  fake_machine machine(machine_plan::two_nodes());
  const outcome done = allocate(machine, ask(node_0, 64 * mib));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pages().kind, page_kind::thp);
  EXPECT_EQ(done.result.pages().page_size_bytes, 2 * mib);
  EXPECT_EQ(done.result.pages().huge_bytes, 64 * mib);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(done.result.data()) % (2 * mib), 0U);
}

TEST(Pages, AreAllResidentWhereOnlySomeAreHuge) {
  for (const bool can_scan : {true, false}) {
    fake_machine machine(machine_plan::two_nodes());
    machine.memory().set_abilities({test::thp_rule::alternate, true, can_scan, UINT64_MAX});
    const outcome done = allocate(machine, ask(node_0, 64 * mib + 4096));
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pages().kind, page_kind::thp);
    EXPECT_EQ(done.result.pages().huge_bytes, 32 * mib);
    EXPECT_EQ(machine.memory().resident_pages(done.result.data(), done.result.mapped_bytes()), 16U * 1024 + 1);
  }
}

// Before Linux 5.14 nothing closes the gap that a touch leaves: the touching itself must be whole.
TEST(Pages, AreAllResidentOnOldKernelsWhateverThePagesAre) {
  for (const auto thp : {test::thp_rule::always, test::thp_rule::never, test::thp_rule::alternate}) {
    for (const auto mode : {populate_mode::quiet, populate_mode::fast}) {
      fake_machine machine(machine_plan::two_nodes());
      machine.memory().set_abilities({thp, false, false, UINT64_MAX});
      request what = ask(node_0, 5 * mib);
      what.populate = mode;
      const outcome done = allocate(machine, what);
      ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
      EXPECT_EQ(machine.memory().resident_pages(done.result.data(), 5 * mib), 5U * 256);
    }
  }
}

TEST(Pages, AreBaseWhenAskedForAndNotHugeByAccident) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_0);
  what.pages = page_policy::base;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pages().kind, page_kind::base);
  EXPECT_EQ(done.result.pages().page_size_bytes, 4 * kib);
  EXPECT_EQ(done.result.pages().huge_bytes, 0U);
  EXPECT_EQ(machine.faults().count(seam_call::advise_huge_pages), 0U);
  EXPECT_EQ(machine.faults().count(seam_call::advise_no_huge_pages), 1U);
  EXPECT_THAT(done.result.pages().reason, IsEmpty());
}

TEST(Pages, SayWhyTheyAreNotHuge) {
  const auto reason_on = [](fake_machine& machine, std::size_t size_bytes) {
    const outcome done = allocate(machine, ask(node_0, size_bytes));
    EXPECT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pages().kind, page_kind::base);
    return done.result.pages().reason;
  };
  fake_machine machine(machine_plan::two_nodes());
  EXPECT_THAT(reason_on(machine, mib), HasSubstr("shorter than one huge page"));
  machine.memory().set_abilities({test::thp_rule::never, true, true, UINT64_MAX});
  EXPECT_THAT(reason_on(machine, 4 * mib), HasSubstr("had no huge page to give"));
  machine.files().set("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_THAT(reason_on(machine, 4 * mib), HasSubstr("set to never"));
  machine.faults().fail_all(seam_call::advise_huge_pages, EINVAL);
  EXPECT_THAT(reason_on(machine, 4 * mib), HasSubstr("refused huge pages"));
  machine.files().remove("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  EXPECT_THAT(reason_on(machine, 4 * mib), HasSubstr("no transparent huge pages"));
}

TEST(Pages, SayThatTheirKindIsNotKnownWhereTheKernelDoesNotTell) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::scan_huge_bytes, ENOTTY);
  machine.faults().fail_all(seam_call::read_huge_bytes, ENOENT);
  const outcome done = allocate(machine, ask(node_0));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_FALSE(done.result.pages().huge_bytes.has_value());
  EXPECT_THAT(done.result.pages().reason, HasSubstr("does not say"));
}

TEST(Hugetlb, TakesTheNodesReservedPages) {
  fake_machine machine(machine_plan::two_nodes());
  for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict}) {
    request what = ask(node_1, 5 * mib);
    what.pages = page_policy::huge_2mib;
    what.bind = bind;
    const outcome done = allocate(machine, what);
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pages().kind, page_kind::hugetlb);
    EXPECT_EQ(done.result.mapped_bytes(), 6 * mib);
    EXPECT_EQ(machine.memory().huge_free(node_1), 61U);
    EXPECT_DOUBLE_EQ(done.result.placement().share_on_node, 1.0);
  }
  EXPECT_EQ(machine.memory().huge_free(node_1), 64U);
}

TEST(Hugetlb, IsRefusedWhereThePoolHasTooFewFreePages) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_1, 130 * mib);  // 65 pages; 64 a node
  what.pages = page_policy::huge_2mib;
  what.bind = bind_policy::strict;
  expect_refused(machine, what, errc::no_huge_pages, operation::admit);
  what.bind = bind_policy::prefer;
  EXPECT_TRUE(static_cast<bool>(allocate(machine, what).result)) << "both nodes together have them";
  what.size_bytes = 258 * mib;
  expect_refused(machine, what, errc::no_huge_pages, operation::admit);
  what.size_bytes = mib;
  what.pages = page_policy::huge_1gib;
  expect_refused(machine, what, errc::no_huge_pages, operation::admit);
}

TEST(Hugetlb, IsAnErrorAndNoSignalWhereThePoolRunsEmptyMeanwhile) {
  fake_machine machine(machine_plan::two_nodes());
  // Another process took the pages between the look and the first touch: the file says more than there is.
  machine.files().set("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
  request what = ask(node_1, 300 * mib);
  what.pages = page_policy::huge_2mib;
  expect_refused(machine, what, errc::no_huge_pages, operation::populate);
}

TEST(Populate, UsesTheCallOnlyWhenFastIsAskedForOrThePagesAreHugetlb) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_0, 40 * mib);
  static_cast<void>(allocate(machine, what));
  EXPECT_EQ(machine.faults().count(seam_call::populate_write), 1U) << "the look for what is missing";
  EXPECT_GE(machine.faults().count(seam_call::touch), 2U) << "two pieces";
  machine.faults().reset();
  what.populate = populate_mode::fast;
  static_cast<void>(allocate(machine, what));
  EXPECT_EQ(machine.faults().count(seam_call::touch), 0U);
  EXPECT_EQ(machine.faults().count(seam_call::populate_write), 3U);
}

TEST(Allocation, SaysHowLongEachStepTook) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const outcome done = allocate(machine, ask(node_0));
  ASSERT_TRUE(static_cast<bool>(done.result));
  const timings& took = done.result.timings();
  for (const auto step : {took.map, took.populate, took.verify, took.register_}) {
    EXPECT_GT(step.count(), 0);
  }
  EXPECT_EQ(took.total, took.map + took.populate + took.verify + took.register_);
}

}  // namespace
}  // namespace numapool::memory
