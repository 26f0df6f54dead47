// SPDX-License-Identifier: Apache-2.0
//
// Goal: a request that does not fit is refused before a page is touched, with the limit named; one
// that fits is let in, and what is let in counts until it is resident.
// Method: admit() on simulated machines whose meminfo and cgroup files say what is left.

#include "memory/admission.hpp"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_machine.hpp"

namespace numapool::memory {
namespace {

using test::fake_machine;
using test::gib;
using test::machine_plan;
using test::mib;
using testing::HasSubstr;

admission_request ask(node_id node, std::size_t size_bytes, bool strict = true) {
  admission_request wanted;
  wanted.node = node;
  wanted.size_bytes = size_bytes;
  wanted.strict = strict;
  return wanted;
}

failure try_to_admit(fake_machine& machine, const admission_request& wanted) {
  admission_ticket ticket;
  return admission(machine.platform().files, *machine.nodes()).admit(wanted, ticket);
}

bool fits(fake_machine& machine, const admission_request& wanted) {
  return !try_to_admit(machine, wanted);
}

constexpr node_id node_0(0);
constexpr node_id node_1(1);

TEST(Reserve, IsTwoPercentButAtLeast512MibAndAtMostAnEighth) {
  EXPECT_EQ(default_reserve_bytes(0), 0U);
  EXPECT_EQ(default_reserve_bytes(1 * gib), 128 * mib);   // an eighth
  EXPECT_EQ(default_reserve_bytes(4 * gib), 512 * mib);   // an eighth and the least are the same
  EXPECT_EQ(default_reserve_bytes(16 * gib), 512 * mib);  // the least
  EXPECT_EQ(default_reserve_bytes(25 * gib), 512 * mib);
  EXPECT_EQ(default_reserve_bytes(100 * gib), 2 * gib);  // 2 %
  EXPECT_EQ(default_reserve_bytes(2000 * gib), 40 * gib);
}

TEST(Admission, RefusesMoreThanTheNodeHasAndSaysWhatItHas) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_1, 10 * gib);
  const std::size_t reserve = default_reserve_bytes(64 * gib);
  EXPECT_TRUE(fits(machine, ask(node_1, 10 * gib - reserve)));
  const failure why = try_to_admit(machine, ask(node_1, 10 * gib - reserve + 4096));
  EXPECT_EQ(why.code, errc::out_of_node_memory);
  EXPECT_EQ(why.operation, operation::admit);
  EXPECT_EQ(why.node, node_1);
  EXPECT_EQ(why.size_bytes, 10 * gib - reserve + 4096);
  EXPECT_THAT(why.message,
              HasSubstr("node 1 has " + std::to_string((10 * gib - reserve) / mib) + " MiB"));
  EXPECT_THAT(why.message, HasSubstr("reserve of " + std::to_string(reserve / mib) + " MiB"));
  EXPECT_EQ(machine.memory().mappings_made(), 0U);
}

// Of many small requests that come one upon the other only the first has to look.
TEST(Admission, LooksOnceForABurstOfSmallRequests) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 20 * gib);
  admission desk(machine.platform().files, *machine.nodes());
  const auto reads_of = [&](const admission_request& wanted) {
    const std::size_t before = machine.faults().count(test::seam_call::read_text);
    admission_ticket ticket;
    EXPECT_FALSE(desk.admit(wanted, ticket));
    return machine.faults().count(test::seam_call::read_text) - before;
  };
  EXPECT_GT(reads_of(ask(node_0, 2 * mib)), 0U);
  // Within 10 ms, unless the machine was busy: then it may well look again.
  std::size_t reads = SIZE_MAX;
  for (int tries = 0; tries < 50 && reads != 0; ++tries) {
    reads = reads_of(ask(node_0, 2 * mib));
  }
  EXPECT_EQ(reads, 0U);
  EXPECT_GT(reads_of(ask(node_0, 4 * gib)), 0U) << "more than an eighth of what there is";
  EXPECT_GT(reads_of(ask(node_1, 2 * mib)), 0U) << "another node";
  EXPECT_GT(reads_of(ask(node_1, 2 * mib, false)), 0U) << "another rule";
  admission_request tight = ask(node_1, 2 * mib, false);
  tight.reserve_bytes = 100 * mib;
  EXPECT_GT(reads_of(tight), 0U) << "another reserve";
}

TEST(Admission, LooksEachTimeWhereLittleIsLeft) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, default_reserve_bytes(64 * gib) + 900 * mib);
  admission desk(machine.platform().files, *machine.nodes());
  for (int round = 0; round < 5; ++round) {
    const std::size_t before = machine.faults().count(test::seam_call::read_text);
    admission_ticket ticket;
    EXPECT_FALSE(desk.admit(ask(node_0, 2 * mib), ticket));
    EXPECT_GT(machine.faults().count(test::seam_call::read_text), before);
  }
}

// What a burst has been promised counts, whether it is resident by now or not.
TEST(Admission, PromisesABurstNoMoreThanAnEighthUnseen) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, default_reserve_bytes(64 * gib) + 8 * gib);
  admission desk(machine.platform().files, *machine.nodes());
  std::size_t unseen = 0;
  for (int round = 0; round < 64; ++round) {
    const std::size_t before = machine.faults().count(test::seam_call::read_text);
    admission_ticket ticket;
    EXPECT_FALSE(desk.admit(ask(node_0, 300 * mib), ticket));
    unseen = machine.faults().count(test::seam_call::read_text) == before ? unseen + 300 * mib : 0;
    EXPECT_LE(unseen, gib);
  }
}

TEST(Admission, TakesThePageCacheForFree) {
  fake_machine machine(machine_plan::two_nodes());
  machine.files().set(
      "/sys/devices/system/node/node0/meminfo",
      "Node 0 MemTotal: 67108864 kB\nNode 0 MemFree: 2097152 kB\nNode 0 Active(file): 1048576 kB\n"
      "Node 0 Inactive(file): 4194304 kB\nNode 0 SReclaimable: 1048576 kB\nNode 0 Active: 9999999 "
      "kB\n");
  const std::size_t usable = 8 * gib - default_reserve_bytes(64 * gib);
  EXPECT_TRUE(fits(machine, ask(node_0, usable)));
  EXPECT_FALSE(fits(machine, ask(node_0, usable + 4096)));
}

TEST(Admission, KeepsTheReserveThatTheCallerSets) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 10 * gib);
  admission_request wanted = ask(node_0, 10 * gib);
  wanted.reserve_bytes = 0;
  EXPECT_TRUE(fits(machine, wanted));
  wanted.reserve_bytes = 4096;
  EXPECT_FALSE(fits(machine, wanted));
  wanted.reserve_bytes = 100 * gib;  // more than there is
  wanted.size_bytes = 4096;
  EXPECT_FALSE(fits(machine, wanted));
}

TEST(Admission, LetsAPreferringRequestTakeFromAllAllowedNodes) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 2 * gib);
  machine.memory().set_free(node_1, 10 * gib);
  EXPECT_TRUE(fits(machine, ask(node_0, 8 * gib, false)));
  const failure why = try_to_admit(machine, ask(node_0, 12 * gib, false));
  EXPECT_EQ(why.code, errc::out_of_memory);
  EXPECT_THAT(why.message, HasSubstr("the machine has"));
}

TEST(Admission, DoesNotCountNodesThatAreNotAllowed) {
  machine_plan plan = machine_plan::two_nodes();
  plan.allowed_nodes = "0";
  fake_machine machine(plan);
  machine.memory().set_free(node_0, 2 * gib);
  machine.memory().set_free(node_1, 50 * gib);
  EXPECT_EQ(try_to_admit(machine, ask(node_0, 8 * gib, false)).code, errc::out_of_memory);
}

TEST(Admission, CountsAGpusMemoryOnlyWhenItIsAskedFor) {
  fake_machine machine(machine_plan::gpu_memory());
  for (const std::uint32_t node : {0U, 1U}) {
    machine.memory().set_free(node_id(node), 2 * gib);
  }
  EXPECT_EQ(try_to_admit(machine, ask(node_0, 8 * gib, false)).code, errc::out_of_memory);
  EXPECT_TRUE(fits(machine, ask(node_id(2), 8 * gib, false)));
}

TEST(Admission, ReadsTheWholeMachineWhereTheKernelShowsNoNodes) {
  fake_machine machine(machine_plan::no_nodes());
  machine.memory().set_free(node_0, 3 * gib);
  EXPECT_TRUE(fits(machine, ask(node_0, 1 * gib)));
  EXPECT_EQ(try_to_admit(machine, ask(node_0, 3 * gib)).code, errc::out_of_node_memory);
}

TEST(Admission, TakesUnknownFiguresForNoRefusal) {
  fake_machine machine(machine_plan::two_nodes());
  for (const char* node : {"0", "1"}) {
    machine.files().remove(std::string("/sys/devices/system/node/node") + node + "/meminfo");
  }
  EXPECT_TRUE(fits(machine, ask(node_0, 500 * gib)));
  EXPECT_TRUE(fits(machine, ask(node_0, 500 * gib, false)));
}

TEST(Admission, NamesTheCgroupThatIsTooSmall) {
  fake_machine machine(machine_plan::two_nodes());
  machine.set_cgroup_memory(8 * gib, 5 * gib,
                            1 * gib);  // 4 GiB used beside file cache, 512 MiB kept
  EXPECT_TRUE(fits(machine, ask(node_0, 4 * gib - 512 * mib, false)));
  const failure why = try_to_admit(machine, ask(node_0, 4 * gib - 512 * mib + 4096, false));
  EXPECT_EQ(why.code, errc::cgroup_memory_limit);
  EXPECT_THAT(why.message, HasSubstr("/sys/fs/cgroup/job"));
  EXPECT_FALSE(fits(machine, ask(node_0, 4 * gib, true)));
}

TEST(Admission, AsksNobodyAboutHugetlbPages) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 0);
  machine.set_cgroup_memory(1 * gib, 1 * gib);
  admission_request wanted = ask(node_0, 8 * gib);
  wanted.from_page_cache = false;
  EXPECT_TRUE(fits(machine, wanted));
}

TEST(Admission, CountsWhatIsAdmittedUntilItIsGivenBack) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 10 * gib);
  machine.memory().set_free(node_1, 10 * gib);
  admission_ticket first;
  ASSERT_FALSE(
      admission(machine.platform().files, *machine.nodes()).admit(ask(node_0, 6 * gib), first));
  EXPECT_FALSE(fits(machine, ask(node_0, 6 * gib)));
  EXPECT_TRUE(fits(machine, ask(node_1, 6 * gib))) << "another node's memory is not taken by it";
  first.give_back(5 * gib);
  EXPECT_TRUE(fits(machine, ask(node_0, 6 * gib)));
  admission_ticket moved = std::move(first);
  EXPECT_FALSE(fits(machine, ask(node_0, 8 * gib)));
  moved = admission_ticket();
  EXPECT_TRUE(fits(machine, ask(node_0, 8 * gib)));
}

TEST(Admission, CountsWhatIsAdmittedAgainstTheCgroupToo) {
  fake_machine machine(machine_plan::two_nodes());
  machine.set_cgroup_memory(8 * gib, 0);
  admission_ticket first;
  ASSERT_FALSE(
      admission(machine.platform().files, *machine.nodes()).admit(ask(node_0, 4 * gib), first));
  EXPECT_EQ(try_to_admit(machine, ask(node_1, 4 * gib)).code, errc::cgroup_memory_limit);
}

TEST(Admission, LetsInNoMoreThanFitsWhenManyAskAtOnce) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, 11 * gib);  // room for three of 3 GiB beside the reserve
  constexpr std::ptrdiff_t count = 8;
  std::latch ready(count);
  std::latch asked(count);
  std::atomic<int> admitted{0};
  {
    std::vector<std::jthread> threads;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        ready.arrive_and_wait();
        admission_ticket ticket;
        if (!admission(machine.platform().files, *machine.nodes())
                 .admit(ask(node_0, 3 * gib), ticket)) {
          ++admitted;
        }
        asked.arrive_and_wait();  // all tickets are held until everybody has asked
      });
    }
  }
  EXPECT_EQ(admitted, 3);
}

TEST(HugePagePool, HasTheNodesFreePagesAtMost) {
  machine_plan plan = machine_plan::two_nodes();
  plan.nodes[0].huge_pages = 10;
  plan.nodes[1].huge_pages = 30;
  fake_machine machine(plan);
  const auto& files = machine.platform().files;
  EXPECT_EQ(free_huge_pages(files, node_0, 2 * mib), 10U);
  EXPECT_EQ(free_huge_pages(files, node_1, 2 * mib), 30U);
  EXPECT_EQ(free_huge_pages(files, node_id::unknown, 2 * mib), 40U);
}

TEST(HugePagePool, LeavesAloneWhatOtherMappingsHaveReserved) {
  machine_plan plan = machine_plan::two_nodes();
  plan.nodes[0].huge_pages = 10;
  plan.nodes[1].huge_pages = 30;
  fake_machine machine(plan);
  machine.files().set("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "35\n");
  EXPECT_EQ(free_huge_pages(machine.platform().files, node_1, 2 * mib), 5U);
  machine.files().set("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "41\n");
  EXPECT_EQ(free_huge_pages(machine.platform().files, node_1, 2 * mib), 0U);
}

TEST(HugePagePool, IsAbsentWhereTheKernelHasNoSuchSize) {
  fake_machine machine(machine_plan::two_nodes());
  EXPECT_FALSE(free_huge_pages(machine.platform().files, node_0, 1 * gib).has_value());
}

}  // namespace
}  // namespace numapool::memory
