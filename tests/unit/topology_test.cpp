// SPDX-License-Identifier: Apache-2.0

// Goal: the topology says what the machine's files say, and what does not add up has a warning.
// Method: the small machines of tests/machines, and single files broken in memory.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "support/temporary_folder.hpp"
#include "support/text_files.hpp"
#include "support/topology_text.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

using tests::describe;

const std::string machines = NUMAPOOL_TEST_MACHINES;

topology read_machine(const std::string& name) {
  return topology::read({.root = machines + "/" + name});
}

/// "0:0-15 1:16-31": every node with its CPUs.
std::string cpus_by_node(const topology& machine) {
  std::string text;
  for (const node_info& node : machine.nodes()) {
    text += (text.empty() ? "" : " ") + std::to_string(node.id.value()) + ":" + node.cpus.to_list();
  }
  return text;
}

bool has_warning(const topology& machine, const std::string& part) {
  for (const std::string& warning : machine.warnings()) {
    if (warning.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Topology, TwoSocketsWithSmt) {
  const topology machine = read_machine("two-sockets-smt");
  EXPECT_EQ(cpus_by_node(machine), "0:0-15,32-47 1:16-31,48-63");
  EXPECT_EQ(machine.source(), topology_source::sysfs);
  EXPECT_FALSE(machine.is_this_machine());
  EXPECT_FALSE(machine.is_single_node());
  EXPECT_EQ(machine.allowed_cpus().to_list(), "0-63");
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0-1");
  EXPECT_EQ(machine.distance(node_id(0), node_id(1)), 21U);
  EXPECT_EQ(machine.distance(node_id(1), node_id(1)), 10U);
  EXPECT_EQ(machine.node_of_cpu(cpu_id(47)), node_id(0));
  EXPECT_EQ(machine.node_of_cpu(cpu_id(48)), node_id(1));
  EXPECT_TRUE(machine.node_of_cpu(cpu_id(64)).is_unknown());
  EXPECT_EQ(machine.cpu_quota(), std::nullopt);
  EXPECT_TRUE(machine.warnings().empty()) << describe(machine);
}

TEST(Topology, MemoryAndHugePages) {
  const topology machine = read_machine("two-sockets-smt");
  const node_info& node = *machine.find(node_id(1));
  EXPECT_EQ(node.kind, node_kind::cpu_and_memory);
  EXPECT_EQ(node.memory_bytes, 264189868ULL * 1024);
  EXPECT_EQ(node.free_bytes, 251001116ULL * 1024);
  ASSERT_EQ(node.huge_pages.size(), 2U);
  EXPECT_EQ(node.huge_pages[0].page_size_bytes, 2097152U);
  EXPECT_EQ(node.huge_pages[0].total_pages, 512U);
  EXPECT_EQ(node.huge_pages[1].page_size_bytes, 1073741824U);
  EXPECT_EQ(node.huge_pages[1].free_pages, 1U);
}

TEST(Topology, InterleavedIds) {
  const topology machine = read_machine("interleaved-ids");
  EXPECT_EQ(cpus_by_node(machine), "0:0,4,8,12 1:1,5,9,13 2:2,6,10,14 3:3,7,11,15");
  for (std::uint32_t cpu = 0; cpu < 16; ++cpu) {
    EXPECT_EQ(machine.node_of_cpu(cpu_id(cpu)), node_id(cpu % 4));
  }
}

TEST(Topology, Gb200) {
  const topology machine = read_machine("gb200");
  EXPECT_EQ(cpus_by_node(machine), "0:0-71 1:72-143 2: 10: 18: 26:");
  EXPECT_EQ(machine.node_count(), 6U);
  EXPECT_EQ(machine.cpu_node_count(), 2U);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> nearest{
      {2, 0}, {10, 0}, {18, 1}, {26, 1}};
  for (const auto& [gpu_node, cpu_node] : nearest) {
    EXPECT_EQ(machine.find(node_id(gpu_node))->kind, node_kind::memory_only);
    EXPECT_EQ(machine.nearest_usable_node(node_id(gpu_node)), node_id(cpu_node));
    EXPECT_EQ(machine.nearest_memory_node(node_id(gpu_node)), node_id(gpu_node));
  }
  EXPECT_EQ(machine.find(node_id(2))->gpu_pci_address, "0008:01:00.0");
  EXPECT_EQ(machine.find(node_id(26))->gpu_pci_address, "0019:01:00.0");
  EXPECT_EQ(machine.find(node_id(0))->gpu_pci_address, std::nullopt);
  EXPECT_TRUE(machine.warnings().empty()) << describe(machine);
}

TEST(Topology, Gh200IsSingleNodeForCpus) {
  const topology machine = read_machine("gh200");
  EXPECT_EQ(machine.node_count(), 9U);
  EXPECT_EQ(machine.cpu_node_count(), 1U);
  EXPECT_TRUE(machine.is_single_node());
  EXPECT_EQ(machine.find(node_id(1))->gpu_pci_address, "0009:01:00.0");
  EXPECT_EQ(machine.find(node_id(1))->kind, node_kind::memory_only);
  for (std::uint32_t id = 2; id < 9; ++id) {
    EXPECT_EQ(machine.find(node_id(id))->kind, node_kind::empty);
    EXPECT_FALSE(machine.find(node_id(id))->allowed_memory);
    EXPECT_EQ(machine.nearest_usable_node(node_id(id)), node_id(0));
  }
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0-1");
}

TEST(Topology, Nps4) {
  const topology machine = read_machine("nps4");
  EXPECT_EQ(machine.cpu_node_count(), 8U);
  EXPECT_EQ(machine.find(node_id(5))->cpus.to_list(), "40-47");
  EXPECT_EQ(machine.distance(node_id(0), node_id(3)), 12U);
  EXPECT_EQ(machine.distance(node_id(0), node_id(4)), 32U);
  EXPECT_EQ(machine.distance(node_id(7), node_id(4)), 12U);
}

TEST(Topology, MemoryOnlyNodesAreNoGpus) {
  const topology machine = read_machine("memory-only");
  EXPECT_EQ(machine.find(node_id(2))->kind, node_kind::memory_only);
  EXPECT_EQ(machine.find(node_id(2))->gpu_pci_address, std::nullopt);
  EXPECT_EQ(machine.nearest_usable_node(node_id(3)), node_id(0));
  EXPECT_EQ(machine.nearest_memory_node(node_id(3)), node_id(3));
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0-3");
}

TEST(Topology, CpusWithoutMemory) {
  const topology machine = read_machine("cpu-only");
  EXPECT_EQ(machine.find(node_id(2))->kind, node_kind::cpu_only);
  EXPECT_EQ(machine.find(node_id(2))->usable_cpus.to_list(), "16-23");
  EXPECT_FALSE(machine.find(node_id(2))->allowed_memory);
  EXPECT_EQ(machine.nearest_usable_node(node_id(2)), node_id(2));
  EXPECT_EQ(machine.nearest_memory_node(node_id(2)), node_id(1));
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0-1");
}

TEST(Topology, SparseIds) {
  const topology machine = read_machine("sparse");
  EXPECT_EQ(cpus_by_node(machine), "0:0-7 8:8-15 63:88-95 64:96-103 252: 253: 254: 255:");
  EXPECT_EQ(machine.find(node_id(1)), nullptr);
  EXPECT_EQ(machine.cpus_of_node(node_id(7)), nullptr);
  EXPECT_EQ(machine.cpus_of_node(node_id(64))->to_list(), "96-103");
  EXPECT_EQ(machine.distance(node_id(63), node_id(64)), 40U);
  EXPECT_EQ(machine.find(node_id(255))->gpu_pci_address, "0000:05:00.0");
  EXPECT_TRUE(machine.nearest_usable_node(node_id(1)).is_unknown());
  EXPECT_TRUE(machine.nearest_usable_node(node_id::unknown).is_unknown());
  EXPECT_TRUE(machine.nearest_memory_node(node_id::unknown).is_unknown());
}

TEST(Topology, UnlistedDistancesAreFarthest) {
  const topology machine = read_machine("sparse");
  EXPECT_EQ(machine.distance(node_id(252), node_id(0)), std::nullopt);  // no file
  EXPECT_EQ(machine.distance(node_id(254), node_id(0)), std::nullopt);  // two columns of eight
  EXPECT_TRUE(has_warning(machine, "node254/distance"));
  EXPECT_FALSE(has_warning(machine, "node252/distance"));
  EXPECT_EQ(machine.nearest_usable_node(node_id(252)), node_id(0));  // all alike: the lowest
}

TEST(Topology, NoNodesIsOneSyntheticNode) {
  const topology machine = read_machine("no-nodes");
  EXPECT_EQ(machine.source(), topology_source::synthetic);
  EXPECT_EQ(cpus_by_node(machine), "0:0-5");
  EXPECT_EQ(machine.online_cpus().to_list(), "0-7");
  EXPECT_EQ(machine.allowed_cpus().to_list(), "0-5");
  const node_info& node = machine.nodes().front();
  EXPECT_EQ(node.memory_bytes, 16384000ULL * 1024);
  EXPECT_EQ(node.free_bytes, 8192000ULL * 1024);
  EXPECT_TRUE(node.allowed_memory);
  ASSERT_EQ(node.huge_pages.size(), 1U);
  EXPECT_EQ(node.huge_pages.front().free_pages, 3U);
  EXPECT_EQ(machine.distance(node_id(0), node_id(0)), 10U);
  EXPECT_TRUE(machine.is_single_node());
  EXPECT_EQ(machine.warnings().size(), 1U);
}

TEST(Topology, ReadsCpumapWhereThereIsNoCpulist) {
  EXPECT_EQ(cpus_by_node(read_machine("cpumap-only")), "0:0-11,32-35 1:12-31,36-47");
}

TEST(Topology, OfflineCpusAreLeftOut) {
  const topology machine = read_machine("offline-cpu");
  EXPECT_EQ(cpus_by_node(machine), "0:0-2 1:4-6");
  EXPECT_TRUE(machine.node_of_cpu(cpu_id(3)).is_unknown());
}

TEST(Topology, CgroupsOfVersion2MayDivideCpusAndMemory) {
  const topology machine = read_machine("v2-cpuset-disjoint");
  EXPECT_EQ(machine.allowed_cpus().to_list(), "64-127");
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0");
  EXPECT_TRUE(machine.find(node_id(0))->usable_cpus.empty());
  EXPECT_EQ(machine.find(node_id(0))->cpus.to_list(), "0-63");
  EXPECT_FALSE(machine.find(node_id(1))->allowed_memory);
  EXPECT_EQ(machine.nearest_usable_node(node_id(0)), node_id(1));
  EXPECT_EQ(machine.nearest_memory_node(node_id(1)), node_id(0));
  EXPECT_EQ(machine.cpu_quota(), 12.5);
}

TEST(Topology, LongCgroupPathsAndOddMountPoints) {
  const topology machine = read_machine("long-cgroup-path");
  EXPECT_EQ(machine.allowed_cpus().to_list(), "2-5,16-17");
  EXPECT_EQ(machine.allowed_nodes().to_list(), "0-1");
  EXPECT_EQ(machine.cpu_quota(), 2.5);
}

TEST(Topology, ContainersOfVersion1) {
  const topology machine = read_machine("v1-container");
  EXPECT_EQ(machine.allowed_cpus().to_list(), "4-11");
  EXPECT_EQ(machine.allowed_nodes().to_list(), "1");
  EXPECT_EQ(machine.cpu_quota(), 3.5);
  EXPECT_TRUE(machine.warnings().empty()) << describe(machine);
}

TEST(Topology, MissingRootIsAnError) {
  boost::system::error_code error;
  const topology nothing = topology::read({.root = machines + "/there-is-none"}, error);
  EXPECT_EQ(error, errc::topology_unavailable);
  EXPECT_TRUE(nothing.nodes().empty());
  EXPECT_TRUE(nothing.node_of_cpu(cpu_id(0)).is_unknown());
  EXPECT_THROW(static_cast<void>(topology::read({.root = machines + "/there-is-none"})),
               numapool::error);
}

/// Two nodes of two CPUs in memory, to be broken one file at a time.
tests::text_files small_machine() {
  const std::string node = "/sys/devices/system/node/node";
  return tests::text_files({
      {"/sys/devices/system/cpu/online", "0-3\n"},
      {node + "0/cpulist", "0-1\n"},
      {node + "0/meminfo", "Node 0 MemTotal: 1000 kB\nNode 0 MemFree: 500 kB\n"},
      {node + "0/distance", "10 20\n"},
      {node + "1/cpulist", "2-3\n"},
      {node + "1/meminfo", "Node 1 MemTotal: 2000 kB\nNode 1 MemFree: 600 kB\n"},
      {node + "1/distance", "20 10\n"},
  });
}

TEST(TopologyFiles, OneBadFileSpoilsOneFact) {
  const std::map<std::string, std::string> garbage{
      {"/sys/devices/system/node/node1/cpulist", "2-\n"},
      {"/sys/devices/system/node/node1/meminfo", "nothing\n"},
      {"/sys/devices/system/node/node1/distance", "10 far\n"},
      {"/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "many\n"},
      {"/proc/self/status", "Cpus_allowed_list:\t0-\n"},
  };
  for (const auto& [path, text] : garbage) {
    tests::text_files files = small_machine();
    files.put(path, text);
    const topology machine = topology_builder::read(files, nullptr);
    EXPECT_FALSE(machine.warnings().empty()) << path;
    EXPECT_EQ(machine.node_count(), 2U) << path;
    EXPECT_EQ(machine.find(node_id(0))->cpus.to_list(), "0-1") << path;
    EXPECT_EQ(machine.find(node_id(0))->memory_bytes, 1024000U) << path;
  }
}

TEST(TopologyFiles, UnreadableFilesWarnWithTheKernelsAnswer) {
  for (const auto& [path, text] :
       std::map<std::string, std::string>{{"/sys/devices/system/node/node0/cpulist", "0-1"},
                                          {"/sys/devices/system/node/node0/distance", "10 20"},
                                          {"/sys/devices/system/cpu/online", "0-3"},
                                          {"/proc/self/status", ""}}) {
    tests::text_files files = small_machine();
    files.put(path, text);
    files.fail(path, EACCES);
    const topology machine = topology_builder::read(files, nullptr);
    EXPECT_TRUE(has_warning(machine, path + " could not be read: Permission denied")) << path;
    EXPECT_EQ(machine.find(node_id(1))->cpus.to_list(), "2-3");
  }
}

TEST(TopologyFiles, UnknownMemoryIsNotForbidden) {
  tests::text_files files = small_machine();
  files.fail("/sys/devices/system/node/node1/meminfo", EIO);
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.find(node_id(1))->memory_bytes, 0U);
  EXPECT_TRUE(machine.find(node_id(1))->allowed_memory);
}

TEST(TopologyFiles, OverlappingListsStayAsReported) {
  tests::text_files files = small_machine();
  files.put("/sys/devices/system/node/node1/cpulist", "1-3");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.find(node_id(1))->cpus.to_list(), "1-3");
  EXPECT_EQ(machine.node_of_cpu(cpu_id(1)), node_id(0));
  EXPECT_TRUE(has_warning(machine, "CPUs 1 under several nodes (0-1)"));
}

TEST(TopologyFiles, SummariesOfNodesAreNotBelieved) {
  tests::text_files files = small_machine();
  files.put("/sys/devices/system/node/has_cpu", "1");
  files.put("/sys/devices/system/node/has_memory", "");
  files.put("/sys/devices/system/node/online", "0-7");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.node_count(), 2U);
  EXPECT_EQ(machine.find(node_id(0))->kind, node_kind::cpu_and_memory);
  EXPECT_TRUE(has_warning(machine, "node/online says '0-7'"));
}

// A node may be online without a directory that we can see; the columns count it all the same.
TEST(TopologyFiles, DistanceColumnsAreTheOnlineNodes) {
  tests::text_files files = small_machine();
  files.put("/sys/devices/system/node/online", "0-1,4");
  files.put("/sys/devices/system/node/node1/distance", "20 10 40");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.distance(node_id(1), node_id(0)), 20U);
  EXPECT_EQ(machine.distance(node_id(1), node_id(1)), 10U);
  EXPECT_EQ(machine.distance(node_id(1), node_id(4)), std::nullopt);
  EXPECT_EQ(machine.distance(node_id(0), node_id(1)), 20U);  // two columns: the listed nodes
}

TEST(TopologyFiles, OnlineCpusHaveThreeSources) {
  tests::text_files files = small_machine();
  files.remove("/sys/devices/system/cpu/online");
  files.put("/proc/stat", "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\ncpu2 1 2\nintr 5\n");
  EXPECT_EQ(topology_builder::read(files, nullptr).online_cpus().to_list(), "0-2");
  files.put("/sys/devices/system/cpu/cpu0/topology/core_id", "0");
  files.put("/sys/devices/system/cpu/cpu1/online", "1\n");
  files.put("/sys/devices/system/cpu/cpu3/online", "0\n");
  files.put("/sys/devices/system/cpu/cpufreq/boost", "0\n");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.online_cpus().to_list(), "0-1");
  EXPECT_TRUE(machine.find(node_id(1))->cpus.empty());
}

TEST(TopologyFiles, WithoutAnyWordOnOnlineCpusTheListedOnesAreTaken) {
  tests::text_files files = small_machine();
  files.remove("/sys/devices/system/cpu/online");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.online_cpus().to_list(), "0-3");
  EXPECT_TRUE(has_warning(machine, "Nothing says which CPUs are online"));
}

TEST(TopologyFiles, AffinityAndMemsAllowedCut) {
  tests::text_files files = small_machine();
  files.put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2,64\nMems_allowed_list:\t1\n");
  const topology machine = topology_builder::read(files, nullptr);
  EXPECT_EQ(machine.allowed_cpus().to_list(), "1-2");
  EXPECT_EQ(machine.find(node_id(0))->usable_cpus.to_list(), "1");
  EXPECT_EQ(machine.allowed_nodes().to_list(), "1");
}

TEST(TopologyFiles, NodeWithoutAnyFileIsStillANode) {
  tests::text_files files = small_machine();
  files.put("/sys/devices/system/node/node12/power/control", "auto");
  const topology machine = topology_builder::read(files, nullptr);
  ASSERT_NE(machine.find(node_id(12)), nullptr);
  EXPECT_EQ(machine.find(node_id(12))->kind, node_kind::empty);
  EXPECT_TRUE(has_warning(machine, "node12"));
}

class Saved : public testing::TestWithParam<std::string> {};

TEST_P(Saved, ReadsBackTheSame) {
  const tests::temporary_folder folder;
  const std::string root = machines + "/" + GetParam();
  const std::string copy = folder.path() + "/made/on/the/way";
  save_machine(copy, {.root = root});
  EXPECT_EQ(describe(topology::read({.root = copy})), describe(topology::read({.root = root})));
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(machines)) {
    if (entry.is_directory()) {
      names.push_back(entry.path().filename().string());
    }
  }
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& machine) {
  std::string name = machine.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Machines, Saved, testing::ValuesIn(machine_names()), name_of);

TEST(SaveMachine, NamesTheFileItCouldNotWrite) {
  const tests::temporary_folder folder;
  try {
    save_machine("/dev/null/machine", {.root = machines + "/nps4"});
    FAIL();
  } catch (const error& wrong) {
    EXPECT_EQ(wrong.code(), errc::machine_not_recorded);
    EXPECT_NE(std::string(wrong.what()).find("/dev/null/machine"), std::string::npos);
    EXPECT_TRUE(wrong.why().cause.failed());
  }
}

// What an earlier recording had left was read as part of the later one; and through a link that
// lay there, the file it named was overwritten.
TEST(SaveMachine, RefusesAFolderThatIsNotEmpty) {
  const tests::temporary_folder folder;
  save_machine(folder.path(), {.root = machines + "/nps4"});
  try {
    save_machine(folder.path(), {.root = machines + "/one-node"});
    FAIL();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::machine_not_recorded);
    EXPECT_EQ(refused.why().cause.value(), ENOTEMPTY);
    EXPECT_NE(std::string(refused.what()).find(folder.path()), std::string::npos);
  }
  EXPECT_EQ(describe(topology::read({.root = folder.path()})),
            describe(topology::read({.root = machines + "/nps4"})));
}

TEST(SaveMachine, SaysThatThereIsNoMachine) {
  const tests::temporary_folder folder;
  EXPECT_THROW(save_machine(folder.path(), {.root = machines + "/there-is-none"}), error);
}

TEST(Names, AreThoseOfTheCommandLine) {
  EXPECT_EQ(name(node_kind::cpu_and_memory), "cpu+memory");
  EXPECT_EQ(name(node_kind::cpu_only), "cpu-only");
  EXPECT_EQ(name(node_kind::memory_only), "memory-only");
  EXPECT_EQ(name(node_kind::empty), "empty");
  EXPECT_EQ(name(topology_source::sysfs), "sysfs");
  EXPECT_EQ(name(topology_source::synthetic), "synthetic");
}

}  // namespace
}  // namespace numapool
