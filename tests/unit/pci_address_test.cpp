// SPDX-License-Identifier: Apache-2.0

// Goal: one device has one address however it is spelled, and its node is what the kernel says or nothing.

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "device/device_node.hpp"
#include "support/text_files.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

const std::string machines = NUMAPOOL_TEST_MACHINES;

TEST(PciAddress, SpellingsOfOneDeviceAreEqual) {
  const pci_address expected{0, 0x3b, 0, 0};
  for (const char* text :
       {"0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "3b:00", "0000:3b:00", " 0000:3B:00.0\n", "0:3b:0.0"}) {
    EXPECT_EQ(pci_address::parse(text), expected) << text;
  }
  EXPECT_EQ(pci_address::parse("00000009:01:1f.7"), (pci_address{9, 1, 31, 7}));
  EXPECT_EQ(pci_address::parse("ffffffff:ff:1f.7"), (pci_address{0xffffffff, 255, 31, 7}));
}

TEST(PciAddress, PrintsAsSysfsNamesItsFolders) {
  std::ostringstream stream;
  stream << pci_address::parse("00000000:0F:00.0");
  EXPECT_EQ(stream.str(), "0000:0f:00.0");
  EXPECT_EQ(to_string(pci_address{0x10001, 1, 2, 3}), "10001:01:02.3");
  EXPECT_EQ(to_string(pci_address{0xffffffff, 255, 31, 7}), "ffffffff:ff:1f.7");
}

TEST(PciAddress, RejectsOtherText) {
  for (const char* text :
       {"", "3b", "0000:3b:00.8", "0000:3b:20.0", "0000:100:00.0", "0:0:0:0.0", "000000000:3b:00.0", "0000:3b:00.",
        "0000:3b:.0", ":3b:00.0", "0000:3g:00.0", "0000:3b:00.0.0", "GPU-1", "-1:00.0", "0000:3b:00 .0"}) {
    boost::system::error_code error;
    EXPECT_EQ(pci_address::parse(text, error), pci_address{}) << text;
    EXPECT_EQ(error, errc::malformed_list) << text;
  }
  try {
    static_cast<void>(pci_address::parse("0000:3b:20.0"));
    FAIL();
  } catch (const error& wrong) {
    EXPECT_NE(std::string(wrong.what()).find("'0000:3b:20.0'"), std::string::npos);
  }
}

TEST(PciAddress, OrdersAsNumbers) {
  EXPECT_LT(pci_address::parse("0000:3b:00.0"), pci_address::parse("0000:af:00.0"));
  EXPECT_LT(pci_address::parse("0000:ff:00.0"), pci_address::parse("0001:00:00.0"));
}

device_node node_on(const std::string& machine, const std::string& address) {
  const auto files = platform::files_below(machines + "/" + machine);
  const topology nodes = topology_builder::read(*files, nullptr);
  return device::find_node(*files, nodes, pci_address::parse(address));
}

TEST(DeviceNode, IsWhatTheKernelSays) {
  EXPECT_EQ(node_on("two-sockets-smt", "0000:3b:00.0").node, node_id(0));
  EXPECT_EQ(node_on("two-sockets-smt", "00000000:D8:00.0").node, node_id(1));
  EXPECT_EQ(node_on("two-sockets-smt", "d8:00.0").source, node_source::sysfs);
}

TEST(DeviceNode, MinusOneIsUnknownOnAMachineOfTwoNodes) {
  const device_node answer = node_on("two-sockets-smt", "0000:5e:00.0");
  EXPECT_TRUE(answer.node.is_unknown());
  EXPECT_EQ(answer.source, node_source::unknown);
  EXPECT_TRUE(node_on("two-sockets-smt", "0000:77:00.0").node.is_unknown());
}

TEST(DeviceNode, IsTheOnlyNodeWhereThereIsOne) {
  const device_node answer = node_on("no-nodes", "0000:3b:00.0");
  EXPECT_EQ(answer.node, node_id(0));
  EXPECT_EQ(answer.source, node_source::single_node);
  // Of nine nodes one has CPUs.
  EXPECT_EQ(node_on("gh200", "0002:00:00.0").node, node_id(0));
}

TEST(DeviceNode, NamesItsSource) {
  EXPECT_EQ(name(node_source::sysfs), "sysfs");
  EXPECT_EQ(name(node_source::single_node), "single-node");
  EXPECT_EQ(name(node_source::unknown), "unknown");
}

}  // namespace
}  // namespace numapool
