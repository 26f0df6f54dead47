// SPDX-License-Identifier: Apache-2.0

// Goal: on recorded machines the GPUs, their nodes with source, their slices of CPUs and their
// neighbours are as they should be. Method: the public functions on tests/machines.

#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/topology.hpp>

#include "device/cpu_slices.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_files.hpp"

namespace numapool {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

topology_options recorded(const std::string& machine) {
  return {std::string(NUMAPOOL_TEST_MACHINES) + "/" + machine};
}

struct place {
  const char* machine;
  const char* address;
  node_id node;
  node_source source;
  node_id reported = node_id::unknown;
};
void PrintTo(const place& one, std::ostream* stream) {
  *stream << one.machine << " " << one.address;
}

const std::vector<place> places = {
    // Two sockets with 3D controllers (0x0302), spelled in each way.
    {"two-sockets-smt", "0000:3b:00.0", node_id(0), node_source::sysfs},
    {"two-sockets-smt", "00000000:D8:00.0", node_id(1), node_source::sysfs},
    {"two-sockets-smt", "d8:00", node_id(1), node_source::sysfs},
    // -1 on two nodes: the list of CPUs alone can tell, and only where it is one node's.
    {"two-sockets-smt", "0000:5e:00.0", node_id::unknown, node_source::unknown},
    {"two-sockets-smt", "0000:af:00.0", node_id(1), node_source::local_cpulist},
    {"two-sockets-smt", "0000:77:00.0", node_id::unknown, node_source::unknown},
    // -1 on one node.
    {"one-node", "0000:01:00.0", node_id(0), node_source::single_node},
    {"no-nodes", "0000:3b:00.0", node_id(0), node_source::single_node},
    // GB200: the GPUs' own memory is what the kernel names, and has no CPUs.
    {"gb200", "00000008:01:00.0", node_id(0), node_source::sysfs, node_id(2)},
    {"gb200", "00000009:01:00.0", node_id(0), node_source::sysfs, node_id(10)},
    {"gb200", "0018:01:00.0", node_id(1), node_source::sysfs, node_id(18)},
    {"gb200", "00000019:01:00.0", node_id(1), node_source::sysfs, node_id(26)},
    // GH200: nine nodes, one with CPUs.
    {"gh200", "0009:01:00.0", node_id(0), node_source::sysfs, node_id(1)},
    {"gh200", "0002:00:00.0", node_id(0), node_source::single_node},
    // Four nodes a socket, in no order.
    {"nps4", "0000:01:00.0", node_id(3), node_source::sysfs},
    {"nps4", "0000:41:00.0", node_id(1), node_source::sysfs},
    {"nps4", "0000:81:00.0", node_id(7), node_source::sysfs},
    {"nps4", "0000:c1:00.0", node_id(5), node_source::sysfs},
    // A container that may not compute on the GPU's node.
    {"v2-cpuset-disjoint", "0000:3b:00.0", node_id(1), node_source::sysfs, node_id(0)},
};

class RecordedDevice : public testing::TestWithParam<place> {};
INSTANTIATE_TEST_SUITE_P(Places, RecordedDevice, testing::ValuesIn(places));

TEST_P(RecordedDevice, IsWhereItShouldBe) {
  const place& one = GetParam();
  const topology machine = topology::read(recorded(one.machine));
  const pci_address address = pci_address::parse(one.address);
  const device_location found = locate_device(address, machine, recorded(one.machine));
  EXPECT_EQ(found.node, one.node);
  EXPECT_EQ(found.source, one.source);
  EXPECT_EQ(found.reported_node, one.reported);
  EXPECT_EQ(found.address, address);
  EXPECT_EQ(found.ordinal, std::nullopt);
  EXPECT_EQ(found.reason.empty(), one.source == node_source::sysfs && one.reported.is_unknown());
}

std::vector<std::string> gpus_of(const std::string& machine) {
  std::vector<std::string> addresses;
  for (const host_device& device : host_devices(recorded(machine))) {
    addresses.push_back(to_string(device.address));
    EXPECT_EQ(device.name + device.uuid, "");
  }
  return addresses;
}

TEST(RecordedDevices, AreNvidiasDisplayAnd3dControllersByAddress) {
  EXPECT_THAT(gpus_of("two-sockets-smt"),
              ElementsAre("0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0", "0000:d8:00.0"));
  EXPECT_THAT(gpus_of("gb200"),
              ElementsAre("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"));
  EXPECT_THAT(gpus_of("gh200"), ElementsAre("0009:01:00.0"));  // no bridge, no other maker's
  EXPECT_THAT(gpus_of("sparse"), IsEmpty());
}

std::string slice(const std::string& machine, const std::string& address) {
  return cpu_slice(pci_address::parse(address), recorded(machine)).to_list();
}

TEST(CpuSlice, IsOfWholeCores) {
  EXPECT_EQ(slice("two-gpus-a-node", "0000:17:00.0"), "0-7,128-135");
  EXPECT_EQ(slice("two-gpus-a-node", "0000:2a:00.0"), "8-15,136-143");
  EXPECT_EQ(slice("two-gpus-a-node", "0000:99:00.0"), "16-23,144-151");
  EXPECT_EQ(slice("two-gpus-a-node", "0000:ab:00.0"), "24-31,152-159");
}

TEST(CpuSlice, OfGpusOnTheirOwnNodesIsOfTheNearestHostNode) {
  EXPECT_EQ(slice("gb200", "0008:01:00.0"), "0-35");
  EXPECT_EQ(slice("gb200", "0009:01:00.0"), "36-71");
  EXPECT_EQ(slice("gb200", "0018:01:00.0"), "72-107");
  EXPECT_EQ(slice("gb200", "0019:01:00.0"), "108-143");
}

TEST(CpuSlice, IsNotCutByWhatThisProcessMayUse) {
  EXPECT_EQ(slice("v2-cpuset-disjoint", "0000:3b:00.0"), "0-63");
}

TEST(CpuSlice, IsEmptyWhereTheNodeIsUnknownOrThereIsNoGpu) {
  EXPECT_EQ(slice("two-sockets-smt", "0000:5e:00.0"), "");
  EXPECT_EQ(slice("two-sockets-smt", "0000:02:00.0"), "");
  EXPECT_EQ(slice("two-gpus-a-node", "0000:18:00.1"), "");
}

std::vector<std::string> slices(std::size_t cores, std::size_t gpus) {
  std::vector<cpu_set> threads;
  for (std::uint32_t core = 0; core < cores; ++core) {
    threads.push_back({cpu_id(core), cpu_id(core + 100)});
  }
  std::vector<std::string> lists;
  for (std::size_t index = 0; index < gpus; ++index) {
    lists.push_back(device::slice_of(threads, index, gpus).to_list());
  }
  return lists;
}

TEST(CpuSlice, GivesTheRemainderToTheFirst) {
  EXPECT_THAT(slices(8, 3), ElementsAre("0-2,100-102", "3-5,103-105", "6-7,106-107"));
  EXPECT_THAT(slices(4, 4), ElementsAre("0,100", "1,101", "2,102", "3,103"));
  EXPECT_THAT(slices(2, 1), ElementsAre("0-1,100-101"));
}

TEST(CpuSlice, IsSharedByAllWhereThereAreFewerCores) {
  EXPECT_THAT(slices(2, 3), ElementsAre("0-1,100-101", "0-1,100-101", "0-1,100-101"));
  EXPECT_THAT(slices(0, 1), ElementsAre(""));
}

TEST(CpuSlice, KnowsCoresByEitherFile) {
  const std::string cpus = "/sys/devices/system/cpu/";
  const tests::text_files files{{cpus + "cpu0/topology/thread_siblings_list", "0,4\n"},
                                {cpus + "cpu1/topology/core_cpus_list", "1,5\n"},
                                {cpus + "cpu1/topology/thread_siblings_list", "1\n"},
                                {cpus + "cpu2/topology/core_cpus_list", "nonsense\n"}};
  const auto cores = device::read_cores(files, cpu_set::parse_list("0-4"));
  std::vector<std::string> lists;
  lists.reserve(cores.size());
  for (const cpu_set& core : cores) {
    lists.push_back(core.to_list());
  }
  EXPECT_THAT(lists, ElementsAre("0,4", "1", "2", "3"));  // 5 is not asked for
}

TEST(Neighbourhood, IsTheRootAndItsNetworkInterfaces) {
  const auto of = [](const char* address) {
    return neighbourhood_of(pci_address::parse(address), recorded("two-gpus-a-node"));
  };
  EXPECT_EQ(of("00000000:17:00.0").root, "pci0000:15");
  EXPECT_THAT(of("00000000:17:00.0").network_interfaces, ElementsAre("ens24f1np1", "ibp24s0"));
  EXPECT_EQ(of("0000:2a:00.0").root, "pci0000:26");
  EXPECT_THAT(of("0000:2a:00.0").network_interfaces, IsEmpty());
  EXPECT_EQ(of("0000:99:00.0").root, "");
}

TEST(SavedMachine, HasTheSameGpusInTheSamePlaces) {
  for (const char* machine : {"two-sockets-smt", "two-gpus-a-node", "gb200", "gh200", "nps4",
                              "v2-cpuset-disjoint", "one-node"}) {
    const tests::temporary_folder folder;
    const topology_options original = recorded(machine);
    const topology_options copy{folder.path()};
    save_machine(copy.root, original);
    const topology nodes = topology::read(original);
    const topology copied_nodes = topology::read(copy);
    const auto devices = host_devices(original);
    ASSERT_EQ(host_devices(copy).size(), devices.size()) << machine;
    for (const host_device& device : devices) {
      const device_location there = locate_device(device.address, nodes, original);
      const device_location here = locate_device(device.address, copied_nodes, copy);
      EXPECT_EQ(here.node, there.node) << machine << " " << device.address;
      EXPECT_EQ(here.source, there.source) << machine << " " << device.address;
      EXPECT_EQ(here.reason, there.reason);
      EXPECT_EQ(cpu_slice(device.address, copy), cpu_slice(device.address, original));
      const pci_neighbourhood neighbours = neighbourhood_of(device.address, original);
      EXPECT_EQ(neighbourhood_of(device.address, copy).root, neighbours.root);
      EXPECT_EQ(neighbourhood_of(device.address, copy).network_interfaces,
                neighbours.network_interfaces);
    }
  }
}

}  // namespace
}  // namespace numapool
