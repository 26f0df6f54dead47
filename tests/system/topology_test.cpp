// SPDX-License-Identifier: Apache-2.0

// Goal: the running machine reads as the kernel shows it, and its recording reads back as the
// machine. Method: this kernel, asked by other ways where there are some.

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"
#include "support/temporary_folder.hpp"
#include "support/topology_text.hpp"
#include "topology/cgroup.hpp"

namespace numapool {
namespace {

TEST(ThisMachine, AllowsWhatTheKernelAllows) {
  const topology machine = topology::read();
  EXPECT_TRUE(machine.is_this_machine());
  cpu_set affinity;
  ASSERT_FALSE(platform::this_machine().threads.get_process_affinity(affinity));
  EXPECT_EQ(machine.allowed_cpus(), affinity) << tests::describe(machine);
  EXPECT_TRUE(machine.allowed_cpus().is_subset_of(machine.online_cpus()));
  EXPECT_FALSE(machine.allowed_nodes().empty());
}

TEST(ThisMachine, NodesHaveMemoryAndCpus) {
  const topology machine = topology::read();
  ASSERT_GE(machine.cpu_node_count(), 1U);
  std::uint64_t memory = 0;
  for (const node_info& node : machine.nodes()) {
    EXPECT_LE(node.free_bytes, node.memory_bytes);
    EXPECT_TRUE(node.usable_cpus.is_subset_of(node.cpus));
    memory += node.memory_bytes;
  }
  EXPECT_GT(memory, 0U);
}

TEST(ThisMachine, RecordedReadsAsItself) {
  const tests::temporary_folder folder;
  save_machine(folder.path());
  const topology recorded = topology::read({.root = folder.path()});
  EXPECT_FALSE(recorded.is_this_machine());
  EXPECT_EQ(tests::describe(recorded, tests::free_memory::left_out),
            tests::describe(topology::read(), tests::free_memory::left_out));
}

TEST(ThisMachine, RecordingOfARecordingIsTheSame) {
  const tests::temporary_folder first;
  const tests::temporary_folder second;
  save_machine(first.path());
  save_machine(second.path(), {.root = first.path()});
  EXPECT_EQ(tests::describe(topology::read({.root = second.path()})),
            tests::describe(topology::read({.root = first.path()})));
}

// The main thread's mask rules, and is in the recording.
TEST(ThisMachine, RecordsANarrowedMask) {
  platform::threads& threads = platform::this_machine().threads;
  cpu_set before;
  ASSERT_FALSE(threads.get_affinity(before));
  ASSERT_FALSE(threads.set_affinity(cpu_set{before.back()}));
  const tests::temporary_folder folder;
  save_machine(folder.path());
  EXPECT_EQ(topology::read().allowed_cpus(), cpu_set{before.back()});
  EXPECT_EQ(topology::read({.root = folder.path()}).allowed_cpus(), cpu_set{before.back()});
  ASSERT_FALSE(threads.set_affinity(before));
}

TEST(ThisMachine, SystemIsOneForAllThreads) {
  std::vector<std::shared_ptr<const topology>> seen(4);
  std::vector<std::thread> askers;
  askers.reserve(seen.size());
  for (auto& place : seen) {
    askers.emplace_back([&place] { place = topology::system(); });
  }
  for (std::thread& asker : askers) {
    asker.join();
  }
  for (const auto& one : seen) {
    EXPECT_EQ(one, topology::system());
  }
  boost::system::error_code error = make_error_code(errc::timed_out);
  EXPECT_EQ(topology::system(error), seen.front());
  EXPECT_FALSE(error);
}

TEST(ThisMachine, MemoryLimitsCanBeAsked) {
  for (const cgroup::memory_limit& limit : cgroup::memory_limits(platform::this_machine().files)) {
    EXPECT_GT(limit.limit_bytes, 0U) << limit.path;
    EXPECT_LE(limit.reclaimable_bytes, limit.usage_bytes + (std::uint64_t{64} << 20U))
        << limit.path;
  }
}

TEST(ThisMachine, AbsentDeviceIsUnknownOrOnTheOnlyNode) {
  device_options sysfs_only;
  sysfs_only.nvidia_smi_timeout = std::chrono::milliseconds(0);
  sysfs_only.allow_heuristic = false;
  const device_location answer = locate_device(pci_address{0xfffe, 0xfe, 31, 7}, sysfs_only);
  const bool is_single = topology::system()->is_single_node();
  EXPECT_EQ(answer.source, is_single ? node_source::single_node : node_source::unknown);
  EXPECT_EQ(answer.node.is_unknown(), !is_single);
}

}  // namespace
}  // namespace numapool
