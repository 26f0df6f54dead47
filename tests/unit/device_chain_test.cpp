// SPDX-License-Identifier: Apache-2.0

// Goal: the node of a device is what the best source says; each source's failure leads to the next;
// unknown is never node 0; and no question initialises CUDA.
// Method: a machine of two nodes in memory, with sources that a test takes away one by one.

#include "device/device_chain.hpp"

#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/device_fakes.hpp"
#include "support/text_files.hpp"
#include "topology/topology_builder.hpp"

namespace numapool::device {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

const pci_address first{0, 0x3b, 0, 0};
const pci_address second{0, 0xd8, 0, 0};
const std::string first_folder = "/sys/bus/pci/devices/0000:3b:00.0";
const std::string first_uuid = "GPU-8f3c1111-0a0a-1b1b-2c2c-3d3d3d3d3d3d";

/// CPUs 0-3 on node 0 and 4-7 on node 1; two GPUs of one model, whose nodes no file tells.
class DeviceChain : public testing::Test {
 protected:
  DeviceChain() {
    files_.put("/sys/devices/system/cpu/online", "0-7\n");
    put_node(0, "0-3", "10 20");
    put_node(1, "4-7", "20 10");
    put_gpu("0000:3b:00.0");
    put_gpu("0000:d8:00.0");
    nvml_.error = tests::no_library();
  }

  void put_node(int id, const std::string& cpus, const std::string& distances) {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(id);
    files_.put(folder + "/cpulist", cpus + "\n");
    files_.put(folder + "/distance", distances + "\n");
    files_.put(folder + "/meminfo", "Node " + std::to_string(id) + " MemTotal: 1000 kB\n");
  }
  void put_gpu(const std::string& name) {
    const std::string folder = "/sys/bus/pci/devices/" + name;
    files_.put(folder + "/vendor", "0x10de\n");
    files_.put(folder + "/class", "0x030200\n");
    files_.put(folder + "/device", "0x2330\n");
    files_.put(folder + "/numa_node", "-1\n");
    files_.put(folder + "/local_cpulist", "0-7\n");
  }
  void allow(const std::string& cpus) {
    files_.put("/proc/self/status", "Cpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t0-1\n");
  }
  void list_in_nvml() {
    nvml_.listed = {{"00000000:3B:00.0", first_uuid, "H100", {}, {}, {}},
                    {"00000000:D8:00.0", "GPU-d00d", "H100", {}, {}, {}}};
    nvml_.error.clear();
  }

  device_sources sources() {
    nodes_ = std::make_unique<topology>(topology_builder::read(files_, nullptr));
    device_sources all{files_, *nodes_, &cuda_, &nvml_, &programs_, &cache_};
    all.visible_devices = visible_;
    all.device_order = order_;
    return all;
  }
  device_location of(int ordinal) { return locate_ordinal(sources(), ordinal, options_).where; }
  device_location of(const pci_address& address) {
    return locate_address(sources(), address, options_);
  }
  void TearDown() override { EXPECT_EQ(cuda_.initialisations, 0); }

  tests::text_files files_;
  tests::fake_nvml nvml_;
  tests::fake_programs programs_;
  tests::fake_cuda_view cuda_;
  device_cache cache_;
  std::unique_ptr<topology> nodes_;
  std::optional<std::string> visible_;
  std::string order_;
  device_options options_;
};

// ---- Each source, in its order

TEST_F(DeviceChain, SysfsSaysIt) {
  files_.put(first_folder + "/numa_node", "1\n");
  const device_location found = of(0);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::sysfs);
  EXPECT_EQ(found.address, first);
  EXPECT_EQ(found.ordinal, 0);
  EXPECT_TRUE(found.reported_node.is_unknown());
  EXPECT_EQ(found.reason, "");
  EXPECT_TRUE(programs_.runs.empty());
}

TEST_F(DeviceChain, SysfsFolderMayHaveEightDigits) {
  files_.put("/sys/bus/pci/devices/00000009:01:00.0/numa_node", "1\n");
  EXPECT_EQ(of(pci_address::parse("0009:01:00.0")).source, node_source::sysfs);
}

TEST_F(DeviceChain, LocalCpulistOfOneNode) {
  files_.put(first_folder + "/local_cpulist", "4-7\n");
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::local_cpulist);
  EXPECT_THAT(found.reason, HasSubstr("numa_node is '-1'"));
}

TEST_F(DeviceChain, LocalCpulistOfBothNodesSaysNothing) {
  for (const char* list : {"0-7", "3-4", "", "nonsense", "64-127"}) {
    files_.put(first_folder + "/local_cpulist", list);
    EXPECT_NE(of(first).source, node_source::local_cpulist) << list;
  }
}

TEST_F(DeviceChain, NvmlMemoryAffinityOfOneNode) {
  list_in_nvml();
  nvml_.listed[0].memory_nodes = {node_id(1)};
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::nvml);
}

TEST_F(DeviceChain, NvmlCpuAffinityWhereTheMemoryNamesSeveral) {
  list_in_nvml();
  nvml_.listed[0].memory_nodes = {node_id(0), node_id(1)};
  EXPECT_NE(of(first).source, node_source::nvml);
  nvml_.listed[0].cpus = cpu_set::parse_list("4-7");
  cache_.forget();
  EXPECT_EQ(of(first).node, node_id(1));
  EXPECT_EQ(of(first).source, node_source::nvml);
}

TEST_F(DeviceChain, NvmlNodeThatIsNotThereIsNoAnswer) {
  list_in_nvml();
  nvml_.listed[0].memory_nodes = {node_id(9)};
  const device_location found = of(first);
  EXPECT_NE(found.source, node_source::nvml);
  EXPECT_THAT(found.reason, HasSubstr("NVML names node 9, which this process is not shown"));
}

TEST_F(DeviceChain, CudaAttributeWhereCudaIsInitialised) {
  cuda_.devices = {{"0000:d8:00.0", -1}, {"0000:3b:00.0", 1}};
  const device_location found = of(1);
  EXPECT_EQ(found.address, first);  // CUDA's order, not PCI's
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::cuda);
  EXPECT_NE(of(0).source, node_source::cuda);  // -1 is no node
  EXPECT_EQ(of(first).ordinal, 1);
}

TEST_F(DeviceChain, NvidiaSmiLast) {
  programs_.say("NUMA IDs of closest CPU: 1\n");
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::nvidia_smi);
  ASSERT_EQ(programs_.runs.size(), 1U);
  EXPECT_EQ(programs_.runs[0].back(), "0000:3b:00.0");
  EXPECT_EQ(programs_.last_limit, 2000ms);
}

TEST_F(DeviceChain, NvidiaSmiIsNotAskedWithoutTime) {
  programs_.say("NUMA IDs of closest CPU: 1\n");
  options_.nvidia_smi_timeout = 0ms;
  EXPECT_EQ(of(0).source, node_source::heuristic);
  EXPECT_TRUE(programs_.runs.empty());
}

TEST_F(DeviceChain, NvidiaSmiIsAskedByIdWhereNothingElsePlacesIt) {
  visible_ = first_uuid;
  programs_.say("NUMA IDs of closest CPU: 1\n");
  const device_location found = of(0);
  EXPECT_EQ(found.address, std::nullopt);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::nvidia_smi);
  EXPECT_EQ(programs_.runs.at(0).back(), first_uuid);
  EXPECT_THAT(found.reason, HasSubstr("GPU ids are NVML's to tell"));
}

TEST_F(DeviceChain, NvidiaSmiIsNotAskedByAPartOfAnId) {
  visible_ = "GPU-8f3c";
  EXPECT_EQ(of(0).source, node_source::heuristic);
  EXPECT_TRUE(programs_.runs.empty());
}

TEST_F(DeviceChain, NvidiaSmisFailuresAreNotAnswers) {
  for (const char* text : {"", "x: N/A\n", "x: 0-1\n", "x: 0,2-17\n", "x: -1\n", "x: 5\n"}) {
    cache_.forget();
    programs_.say(text);
    options_.allow_heuristic = false;
    const device_location found = of(0);
    EXPECT_TRUE(found.node.is_unknown()) << text;
    EXPECT_EQ(found.source, node_source::unknown);
    EXPECT_THAT(found.reason, HasSubstr("nvidia-smi")) << text;
  }
}

TEST_F(DeviceChain, TheOnlyNodeOfAMachine) {
  files_ = tests::text_files();
  files_.put("/sys/devices/system/cpu/online", "0-3\n");
  put_node(0, "0-3", "10");
  put_gpu("0000:3b:00.0");
  const device_location found = of(0);
  EXPECT_EQ(found.node, node_id(0));
  EXPECT_EQ(found.source, node_source::single_node);
  EXPECT_TRUE(programs_.runs.empty());  // it could say nothing else
}

TEST_F(DeviceChain, TheGuessIsTheLastAndNamed) {
  const device_location found = of(1);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::heuristic);
  EXPECT_EQ(found.address, second);
  EXPECT_THAT(found.reason, HasSubstr("guess ordinal % 2"));
  options_.allow_heuristic = false;
  EXPECT_TRUE(of(1).node.is_unknown());
}

TEST_F(DeviceChain, TheGuessMustBeANodeWithUsableCpus) {
  allow("0-3");
  const device_location found = of(1);
  EXPECT_TRUE(found.node.is_unknown());
  EXPECT_EQ(found.source, node_source::unknown);
  EXPECT_EQ(of(0).node, node_id(0));
}

TEST_F(DeviceChain, AnAddressThatIsNotVisibleIsNotGuessed) {
  visible_ = "1";
  const device_location found = of(first);
  EXPECT_TRUE(found.node.is_unknown());
  EXPECT_EQ(found.ordinal, std::nullopt);
}

// ---- A node that cannot be computed on

TEST_F(DeviceChain, ANodeWithoutUsableCpusIsTheNearestWithSome) {
  allow("4-7");
  files_.put(first_folder + "/numa_node", "0\n");
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.reported_node, node_id(0));
  EXPECT_EQ(found.source, node_source::sysfs);
  EXPECT_THAT(found.reason, HasSubstr("NumaNode(0) has no CPU that this process may use"));
}

TEST_F(DeviceChain, AGpusOwnNodeIsTheNearestHostNode) {
  put_node(1, "4-7", "20 10 30");
  put_node(0, "0-3", "10 20 80");
  put_node(2, "", "80 30 10");
  files_.put(first_folder + "/numa_node", "2\n");
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.reported_node, node_id(2));
  EXPECT_THAT(found.reason, HasSubstr("NumaNode(2) has no CPUs"));
}

TEST_F(DeviceChain, ANodeThatIsNotThereLeadsToTheNextSource) {
  files_.put(first_folder + "/numa_node", "7\n");
  files_.put(first_folder + "/local_cpulist", "4-7\n");
  const device_location found = of(first);
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::local_cpulist);
  EXPECT_THAT(found.reason, HasSubstr("sysfs names node 7"));
}

// ---- Which GPU an ordinal is

TEST_F(DeviceChain, AnOrdinalIsCountedAmongTheVisible) {
  visible_ = "1,0";
  EXPECT_EQ(of(0).address, second);
  EXPECT_EQ(of(1).address, first);
  EXPECT_EQ(of(second).ordinal, 0);
}

TEST_F(DeviceChain, AnOrdinalBeyondTheVisibleHasNeitherAddressNorNode) {
  visible_ = "1";
  for (const int ordinal : {1, 2, -1}) {
    const ordinal_location found = locate_ordinal(sources(), ordinal, options_);
    EXPECT_FALSE(found.is_shown);
    EXPECT_EQ(found.where.address, std::nullopt);
    EXPECT_TRUE(found.where.node.is_unknown());
    EXPECT_THAT(found.where.reason, HasSubstr("sees 1 device, not number"));
  }
  visible_ = "0,-1,1";
  EXPECT_THAT(of(1).reason, HasSubstr("'-1'"));
}

TEST_F(DeviceChain, AMachineWithoutGpusHasNoDeviceZero) {
  files_.put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x8086\n");
  files_.put("/sys/bus/pci/devices/0000:d8:00.0/class", "0x060400\n");
  EXPECT_FALSE(locate_ordinal(sources(), 0, options_).is_shown);
  EXPECT_TRUE(of(0).node.is_unknown());
}

TEST_F(DeviceChain, WhereNothingListsGpusTheGuessRemains) {
  for (const char* name : {"vendor", "class", "device", "numa_node", "local_cpulist"}) {
    files_.remove(first_folder + "/" + name);
    files_.remove("/sys/bus/pci/devices/0000:d8:00.0/" + std::string(name));
  }
  const ordinal_location found = locate_ordinal(sources(), 1, options_);
  EXPECT_FALSE(found.is_shown);
  EXPECT_EQ(found.where.node, node_id(1));
  EXPECT_EQ(found.where.source, node_source::heuristic);
  EXPECT_THAT(found.where.reason, HasSubstr("nothing here lists"));
}

TEST_F(DeviceChain, UnlikeGpusAreNotTakenInPciOrder) {
  files_.put("/sys/bus/pci/devices/0000:d8:00.0/device", "0x1db6\n");
  files_.put(first_folder + "/numa_node", "0\n");
  const device_location found = of(0);
  EXPECT_EQ(found.address, std::nullopt);
  EXPECT_EQ(found.source, node_source::heuristic);
  EXPECT_THAT(found.reason, HasSubstr("CUDA_DEVICE_ORDER"));
  order_ = "PCI_BUS_ID";
  EXPECT_EQ(of(0).address, first);
  EXPECT_EQ(of(0).source, node_source::sysfs);
}

TEST_F(DeviceChain, AContainersGpusAreNvmls) {
  list_in_nvml();
  nvml_.listed.erase(nvml_.listed.begin());  // it was given the second alone
  EXPECT_EQ(of(0).address, second);
  EXPECT_EQ(of(1).address, std::nullopt);
  EXPECT_EQ(host_devices_of(sources()).size(), 2U);
}

TEST_F(DeviceChain, OneGpuNeedsNoNvml) {
  files_.put("/sys/bus/pci/devices/0000:d8:00.0/vendor", "0x8086\n");
  files_.put(first_folder + "/numa_node", "1\n");
  EXPECT_EQ(of(0).address, first);
  EXPECT_EQ(nvml_.calls, 0);
}

TEST_F(DeviceChain, NvmlAloneListsTheGpusWhereSysfsDoesNot) {
  files_.put(first_folder + "/vendor", "0x8086\n");
  files_.put("/sys/bus/pci/devices/0000:d8:00.0/vendor", "0x8086\n");
  list_in_nvml();
  const auto devices = host_devices_of(sources());
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].address, first);
  EXPECT_EQ(devices[0].uuid, first_uuid);
  EXPECT_EQ(devices[0].name, "H100");
}

// ---- What is kept

TEST_F(DeviceChain, AnswersAreKeptUntilTheyAreForgotten) {
  list_in_nvml();
  nvml_.listed[0].memory_nodes = {node_id(1)};
  EXPECT_EQ(of(first).node, node_id(1));
  const std::string reason = of(first).reason;
  EXPECT_THAT(reason, HasSubstr("numa_node is '-1'"));
  files_.put(first_folder + "/numa_node", "0\n");
  EXPECT_EQ(of(first).node, node_id(1));
  EXPECT_EQ(of(first).reason, reason);
  EXPECT_EQ(nvml_.calls, 1);
  cache_.forget();
  EXPECT_EQ(of(first).node, node_id(0));
  EXPECT_EQ(of(first).source, node_source::sysfs);
}

TEST_F(DeviceChain, FailuresAndGuessesAreNotKept) {
  EXPECT_EQ(of(0).source, node_source::heuristic);
  list_in_nvml();
  nvml_.listed[0].memory_nodes = {node_id(1)};
  EXPECT_EQ(of(0).source, node_source::nvml);
}

TEST_F(DeviceChain, ANewModeOfMigIsSeenAfterForgetting) {
  list_in_nvml();
  visible_ = "MIG-5e5e";
  EXPECT_EQ(of(0).address, std::nullopt);
  nvml_.listed[1].mig_uuids = {"MIG-5e5e0001"};
  cache_.forget();
  EXPECT_EQ(of(0).address, second);
}

TEST_F(DeviceChain, NamesOfSources) {
  EXPECT_EQ(name(node_source::unknown), "unknown");
  EXPECT_EQ(name(node_source::sysfs), "sysfs");
  EXPECT_EQ(name(node_source::local_cpulist), "local-cpulist");
  EXPECT_EQ(name(node_source::nvml), "nvml");
  EXPECT_EQ(name(node_source::cuda), "cuda");
  EXPECT_EQ(name(node_source::nvidia_smi), "nvidia-smi");
  EXPECT_EQ(name(node_source::single_node), "single-node");
  EXPECT_EQ(name(node_source::heuristic), "heuristic");
  EXPECT_EQ(name(static_cast<node_source>(99)), "unknown");
}

}  // namespace
}  // namespace numapool::device
