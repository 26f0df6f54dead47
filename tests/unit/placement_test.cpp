// SPDX-License-Identifier: Apache-2.0
//
// Goal: where pages are is told by whoever can tell it, in the stated order, and what nobody can
// tell is absent and not made up; shares count base pages; a sample is 64 pages spread from the
// first to the last.
// Method: measure_placement() on simulated memory whose pages are put where the test wants them;
// numa_maps texts.

#include "memory/placement.hpp"

#include <cerrno>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_machine.hpp"

namespace numapool::memory {
namespace {

using test::fake_machine;
using test::machine_plan;
using test::mib;
using test::seam_call;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

MATCHER_P2(On, node, pages, "") {
  return arg.node == node && arg.pages == static_cast<std::size_t>(pages);
}

// Resident base pages, all on node 0 unless a test moves them.
class resident_pages {
 public:
  resident_pages(fake_machine& machine, std::size_t count) : machine_(machine) {
    EXPECT_FALSE(memory().map({count * 4096, 4096, 0}, mapped_));
    EXPECT_FALSE(memory().touch(mapped_.data, mapped_.size_bytes, 4096));
  }
  ~resident_pages() { EXPECT_FALSE(memory().unmap(mapped_)); }
  resident_pages(const resident_pages&) = delete;
  resident_pages& operator=(const resident_pages&) = delete;

  [[nodiscard]] platform::memory& memory() { return machine_.platform().memory; }
  [[nodiscard]] std::byte* page(std::size_t index) { return mapped_.data + index * 4096; }
  void move(std::size_t first, std::size_t count, node_id to) {
    machine_.memory().migrate(page(first), count * 4096, to);
  }
  [[nodiscard]] measured_range range(node_id wanted, std::size_t page_size_bytes = 4096) const {
    return {mapped_.data, mapped_.size_bytes, page_size_bytes, wanted};
  }
  [[nodiscard]] placement measure(node_id wanted, verify_policy how) {
    return measure_placement(machine_.platform(), range(wanted), how);
  }

 private:
  fake_machine& machine_;
  platform::mapping mapped_;
};

TEST(Placement, CountsEveryPageWhenAskedForAll) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 3000);  // more than two batches
  pages.move(0, 750, node_1);
  const placement found = pages.measure(node_0, verify_policy::full);
  EXPECT_EQ(found.by, witness::move_pages);
  EXPECT_EQ(found.verified, verify_policy::full);
  EXPECT_EQ(found.pages_checked, 3000U);
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 2250), On(node_1, 750)));
  EXPECT_DOUBLE_EQ(found.share_on_node, 0.75);
  EXPECT_FALSE(found.error);
}

TEST(Placement, SamplesSixtyFourPagesAmongThemTheFirstAndTheLast) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 5000);
  pages.move(0, 1, node_1);
  pages.move(4999, 1, node_1);
  const std::size_t before = machine.memory().queries();
  const placement found = pages.measure(node_1, verify_policy::sample);
  EXPECT_EQ(machine.memory().queries() - before, 64U);
  EXPECT_EQ(found.pages_checked, 64U);
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 62), On(node_1, 2)));
  EXPECT_DOUBLE_EQ(found.share_on_node, 2.0 / 64);
}

TEST(Placement, SamplesAreSpreadEvenly) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 6400);
  pages.move(1600, 1600, node_1);  // the second quarter
  EXPECT_DOUBLE_EQ(pages.measure(node_1, verify_policy::sample).share_on_node, 0.25);
}

TEST(Placement, SamplesAShortRangeWhole) {
  fake_machine machine(machine_plan::two_nodes());
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{2}, std::size_t{63}, std::size_t{64}}) {
    resident_pages pages(machine, count);
    EXPECT_EQ(pages.measure(node_0, verify_policy::sample).pages_checked, count);
  }
}

TEST(Placement, AsksNobodyWhenOff) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 8);
  const placement found = pages.measure(node_0, verify_policy::off);
  EXPECT_EQ(found.by, witness::none);
  EXPECT_EQ(found.verified, verify_policy::off);
  EXPECT_EQ(found.pages_checked, 0U);
  EXPECT_EQ(found.share_on_node, 0.0);
  EXPECT_EQ(machine.memory().queries(), 0U);
}

TEST(Placement, CountsAHugePageAsItsBasePages) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, std::size_t{4} * 512);
  pages.move(0, 512, node_1);
  const std::size_t before = machine.memory().queries();
  const placement found =
      measure_placement(machine.platform(), pages.range(node_0, 2 * mib), verify_policy::full);
  EXPECT_EQ(machine.memory().queries() - before, 4U);
  EXPECT_EQ(found.pages_checked, 4U * 512);
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 3 * 512), On(node_1, 512)));
}

TEST(Placement, NamesPagesThatAreNotResidentUnknown) {
  fake_machine machine(machine_plan::two_nodes());
  platform::mapping mapped;
  ASSERT_FALSE(machine.memory().map({std::size_t{16} * 4096, 4096, 0}, mapped));
  ASSERT_FALSE(machine.memory().touch(mapped.data, std::size_t{4} * 4096, 4096));
  const placement found = measure_placement(
      machine.platform(), {mapped.data, mapped.size_bytes, 4096, node_0}, verify_policy::full);
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 4), On(node_id::unknown, 12)));
  EXPECT_DOUBLE_EQ(found.share_on_node, 0.25);
  ASSERT_FALSE(machine.memory().unmap(mapped));
}

TEST(Placement, HasNoShareWhereNoNodeIsWanted) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 8);
  EXPECT_EQ(pages.measure(node_id::unknown, verify_policy::full).share_on_node, 0.0);
}

TEST(Placement, AsksGetMempolicyWhereMovePagesIsDenied) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 300);
  pages.move(0, 100, node_1);
  machine.faults().fail_all(seam_call::query_nodes, EPERM);
  const placement found = pages.measure(node_0, verify_policy::full);
  EXPECT_EQ(found.by, witness::get_mempolicy);
  EXPECT_EQ(found.error.value(), EPERM) << "why the better witness could not speak";
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 200), On(node_1, 100)));
}

TEST(Placement, CountsNothingTwiceWhenAWitnessFallsSilentHalfway) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 3000);
  machine.faults().fail_nth_of(seam_call::query_nodes, 2, ENOMEM);
  const placement found = pages.measure(node_0, verify_policy::full);
  EXPECT_EQ(found.by, witness::get_mempolicy);
  EXPECT_EQ(found.pages_checked, 3000U);
}

TEST(Placement, ReadsNumaMapsWhereBothAreDenied) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 300);
  pages.move(0, 100, node_1);
  machine.faults().fail_all(seam_call::query_nodes, ENOSYS);
  machine.faults().fail_all(seam_call::query_node, EPERM);
  const placement found = pages.measure(node_0, verify_policy::sample);
  EXPECT_EQ(found.by, witness::numa_maps);
  EXPECT_EQ(found.verified, verify_policy::full) << "it answers for every page whatever was asked";
  EXPECT_EQ(found.pages_checked, 300U);
  EXPECT_EQ(found.error.value(), ENOSYS);
  EXPECT_THAT(found.by_node, ElementsAre(On(node_0, 200), On(node_1, 100)));
}

TEST(Placement, IsNotMadeUpWhereNobodyCanSay) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 300);
  machine.faults().fail_all(seam_call::query_nodes, EPERM);
  machine.faults().fail_all(seam_call::query_node, EPERM);
  machine.files().remove("/proc/self/numa_maps");
  const placement found = pages.measure(node_0, verify_policy::full);
  EXPECT_EQ(found.by, witness::none);
  EXPECT_EQ(found.verified, verify_policy::off);
  EXPECT_EQ(found.pages_checked, 0U);
  EXPECT_THAT(found.by_node, IsEmpty());
  EXPECT_EQ(found.error.value(), EPERM);
}

TEST(Placement, IsNotMadeUpWhereNumaMapsLacksTheMapping) {
  fake_machine machine(machine_plan::two_nodes());
  resident_pages pages(machine, 8);
  machine.faults().fail_all(seam_call::query_nodes, EPERM);
  machine.faults().fail_all(seam_call::query_node, EPERM);
  machine.files().set("/proc/self/numa_maps", "00400000 default N0=3 kernelpagesize_kB=4\n");
  EXPECT_EQ(pages.measure(node_0, verify_policy::full).by, witness::none);
}

const char* const numa_maps =
    "00400000 default file=/bin/cat mapped=3 N1=3 kernelpagesize_kB=4\n"
    "7f0000000000 bind:1 anon=1024 dirty=1024 active=0 N0=1000 N1=24 kernelpagesize_kB=4\n"
    "7f0010000000 prefer:1 huge anon=4 dirty=4 N1=3 N10=1 kernelpagesize_kB=2048\n"
    "7f0020000000 default\n"
    "7f0030000000 default file=/tmp/N5=7 anon=2 N3=2";

TEST(NumaMaps, GivesThePagesOfTheMappingThatStartsThere) {
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0000000000, 0x7f0000000000 + 4096, 4096),
              ElementsAre(On(node_0, 1000), On(node_1, 24)));
  EXPECT_THAT(read_numa_maps(numa_maps, 0x400000, 0x400000 + 4096, 4096),
              ElementsAre(On(node_1, 3)));
}

TEST(NumaMaps, CountsHugePagesInBasePages) {
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0010000000, 0x7f0010000000 + 4096, 4096),
              ElementsAre(On(node_1, 1536), On(node_id(10), 512)));
  EXPECT_THAT(read_numa_maps("1000 default N0=2 kernelpagesize_kB=64\n", 0x1000, 0x2000, 65536),
              ElementsAre(On(node_0, 2)));
}

TEST(NumaMaps, IsEmptyForAnAddressInsideAMappingOrBetweenTwo) {
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0000001000, 0x7f0000001000 + 4096, 4096), IsEmpty());
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f, 0x7f + 4096, 4096), IsEmpty());
  EXPECT_THAT(read_numa_maps("", 0x1000, 0x2000, 4096), IsEmpty());
}

TEST(NumaMaps, ReadsAMappingWithoutPagesAndALineWithoutItsEnd) {
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0020000000, 0x7f0020000000 + 4096, 4096), IsEmpty());
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0030000000, 0x7f0030000000 + 4096, 4096),
              ElementsAre(On(node_id(3), 2)));
}

TEST(NumaMaps, PassesOverWordsThatAreNoCounts) {
  EXPECT_THAT(read_numa_maps("1000 default N0= N=3 Nx=4 N1=x =5 N2=99999999999999999999999 N0=1\n",
                             0x1000, 0x2000, 4096),
              ElementsAre(On(node_0, 1)));
}

TEST(NumaMaps, AddsUpTheLinesOfARangeThatAdviceHasSplit) {
  EXPECT_THAT(read_numa_maps(numa_maps, 0x7f0000000000, 0x7f0020000000, 4096),
              ElementsAre(On(node_0, 1000), On(node_1, 24 + 1536), On(node_id(10), 512)));
}

}  // namespace
}  // namespace numapool::memory
