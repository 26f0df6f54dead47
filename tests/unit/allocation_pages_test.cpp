// SPDX-License-Identifier: Apache-2.0
//
// Goal: a request that cannot be is refused before anything is touched, and pages are of the kind
// that was asked for, or the handle says why not.
// Method: as allocation_test.cpp.

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/allocation_fixture.hpp"

namespace numapool::memory {
namespace {

// ---- the request itself

TEST(Request, OfZeroBytesIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  expect_refused(machine, ask(node_0, 0), errc::zero_size, operation::resolve);
}

TEST(Request, ThatOverflowsWhenRoundedIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  for (const std::size_t size :
       {SIZE_MAX, SIZE_MAX - 4095, static_cast<std::size_t>(PTRDIFF_MAX)}) {
    for (const page_policy pages :
         {page_policy::automatic, page_policy::base, page_policy::huge_1gib}) {
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

TEST(Request, WithANegativeHugePageBudgetIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_0);
  what.huge_page_budget = std::chrono::microseconds(-1);
  expect_refused(machine, what, errc::invalid_option, operation::resolve);
}

TEST(Request, IsRoundedUpToPagesAndNoFurther) {
  fake_machine machine(machine_plan::two_nodes());
  for (const auto& [asked, mapped] :
       {std::pair{std::size_t{1}, 4 * kib}, std::pair{4 * kib, 4 * kib},
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
  EXPECT_TRUE(done.result.pages().is_kept_from_children);
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
    EXPECT_EQ(machine.memory().resident_pages(done.result.data(), done.result.mapped_bytes()),
              16U * 1024 + 1);
  }
}

// Before Linux 5.14 nothing closes the gap that a touch leaves: the touching itself must be whole.
TEST(Pages, AreAllResidentOnOldKernelsWhateverThePagesAre) {
  for (const auto thp :
       {test::thp_rule::always, test::thp_rule::never, test::thp_rule::alternate}) {
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

// Refused before: a sandbox without madvise(2) had no memory at all.
TEST(Pages, AreThereWhereEveryAdviceIsDeniedAndSaySo) {
  for (const int denial : {EPERM, EACCES, ENOSYS}) {
    for (const auto mode : {populate_mode::quiet, populate_mode::fast}) {
      fake_machine machine(machine_plan::two_nodes());
      machine.memory().set_abilities({test::thp_rule::never, true, true, UINT64_MAX});
      for (const auto advice : {seam_call::advise_huge_pages, seam_call::advise_no_huge_pages,
                                seam_call::advise_dont_fork, seam_call::populate_write}) {
        machine.faults().fail_all(advice, denial);
      }
      request what = ask(node_0, 5 * mib);
      what.populate = mode;
      const outcome done = allocate(machine, what);
      ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
      EXPECT_EQ(machine.memory().resident_pages(done.result.data(), 5 * mib), 5U * 256);
      EXPECT_FALSE(done.result.pages().is_kept_from_children);
      EXPECT_THAT(done.result.pages().reason, HasSubstr("forked child"));
      EXPECT_THAT(done.result.pages().reason, HasSubstr("refused huge pages"));
    }
  }
}

// A pool that is empty would be SIGBUS: only the call can find out.
TEST(Pages, OfAHugePagePoolAreRefusedWhereTheirPopulationIsDenied) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::populate_write, EPERM);
  request what = ask(node_0, 4 * mib);
  what.pages = page_policy::huge_2mib;
  const outcome done = allocate(machine, what);
  EXPECT_FALSE(static_cast<bool>(done.result));
  EXPECT_EQ(done.why.code, errc::populate_failed);
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

void use_cpu(std::chrono::milliseconds time) {
  const platform::threads& threads = platform::this_machine().threads;
  for (const auto until = threads.cpu_time() + time; threads.cpu_time() < until;) {
  }
}

// TensorRT-LLM#15430: THP faults that compact, at gigabytes a minute.
TEST(Pages, AreBaseOnceHugeOnesHaveBecomeTooSlow) {
  fake_machine machine(machine_plan::two_nodes());
  const std::byte* first = nullptr;
  machine.memory().set_populate_hook([&first](const std::byte* data) {
    first = first == nullptr ? data : first;
    if (data >= first + 32 * mib && data < first + 64 * mib) {
      use_cpu(std::chrono::milliseconds(20));  // 1.25 ms for 2 MiB
    }
  });
  request what = ask(node_0, 128 * mib);
  what.huge_page_budget = std::chrono::microseconds(1000);
  for (const populate_mode mode : {populate_mode::quiet, populate_mode::fast}) {
    what.populate = mode;
    first = nullptr;
    const outcome done = allocate(machine, what);
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pages().huge_bytes, 64 * mib);
    EXPECT_EQ(done.result.pages().given_up_bytes, 64 * mib);
    EXPECT_THAT(done.result.pages().reason, HasSubstr("over the budget of 1000 us"));
    EXPECT_THAT(done.result.pages().reason, HasSubstr("64 MiB were filled with base pages"));
    EXPECT_EQ(machine.memory().resident_pages(done.result.data(), 128 * mib), 128U * 256);
  }
}

// A thread that waits for a CPU says nothing of the pages.
TEST(Pages, AreHugeHoweverLongTheirThreadHadToWait) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_populate_hook(
      [](const std::byte*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  request what = ask(node_0, 8 * mib);
  what.huge_page_budget = std::chrono::microseconds(5000);
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pages().huge_bytes, 8 * mib);
}

TEST(Pages, AreHugeHoweverSlowWithoutABudget) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_populate_hook(
      [](const std::byte*) { use_cpu(std::chrono::milliseconds(20)); });
  request what = ask(node_0, 64 * mib);
  what.huge_page_budget = std::chrono::microseconds(0);
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pages().huge_bytes, 64 * mib);
  EXPECT_EQ(done.result.pages().given_up_bytes, 0U);
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

// Seen with too few file descriptors: what could not be read was said not to be there.
TEST(Pages, SayThatTheKernelsWordOnHugePagesCouldNotBeRead) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::read_text, EMFILE);
  const outcome done = allocate(machine, ask(node_0));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_THAT(done.result.pages().reason, HasSubstr("hpage_pmd_size could not be read: "));
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
  // Another process took the pages between the look and the first touch: the file says more than
  // there is.
  machine.files().set("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
  request what = ask(node_1, 300 * mib);
  what.pages = page_policy::huge_2mib;
  expect_refused(machine, what, errc::no_huge_pages, operation::populate);
}

TEST(Hugetlb, IsRefusedWhereTheKernelCannotPopulateWithoutTheRiskOfASignal) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_abilities({test::thp_rule::always, false, true, UINT64_MAX});
  request what = ask(node_1);
  what.pages = page_policy::huge_2mib;
  expect_refused(machine, what, errc::populate_failed, operation::populate);
  EXPECT_EQ(machine.faults().count(seam_call::touch), 0U);
}

TEST(Populate, UsesTheCallOnlyWhenFastIsAskedForOrThePagesAreHugetlb) {
  fake_machine machine(machine_plan::two_nodes());
  request what = ask(node_0, 40 * mib);
  static_cast<void>(allocate(machine, what));
  EXPECT_EQ(machine.faults().count(seam_call::populate_write), 1U)
      << "the look for what is missing";
  EXPECT_GE(machine.faults().count(seam_call::touch), 4U) << "four pieces";
  machine.faults().reset();
  what.populate = populate_mode::fast;
  static_cast<void>(allocate(machine, what));
  EXPECT_EQ(machine.faults().count(seam_call::touch), 0U);
  EXPECT_EQ(machine.faults().count(seam_call::populate_write), 5U) << "four pieces, and the look";
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
