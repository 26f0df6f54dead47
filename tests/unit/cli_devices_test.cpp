// SPDX-License-Identifier: Apache-2.0

// Goal: `numapool devices` shows each GPU with its node and what said so, as a table and as the
// documented JSON. Method: the recorded machines, and facts made by hand.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/devices_facts.hpp"

namespace numapool::cli {
namespace {

using testing::HasSubstr;
using json = nlohmann::ordered_json;

devices_facts recorded(const std::string& machine) {
  return read_devices({std::string(NUMAPOOL_TEST_MACHINES) + "/" + machine});
}

TEST(CliDevices, JsonOfARecordedMachine) {
  const json document = devices_json(recorded("gb200"));
  ASSERT_EQ(document["devices"].size(), 4U);
  EXPECT_EQ(document["devices"][1], json::parse(R"({
    "ordinal": 1, "name": null, "pci_address": "0009:01:00.0", "uuid": null, "node": 0,
    "node_source": "sysfs", "reported_node": 10, "cpus": "0-71", "cpu_slice": "36-71",
    "memory_node": 10, "pci_root": null, "network_interfaces": [],
    "reason": "NumaNode(10) has no CPUs: NumaNode(0) is the nearest with some"})"));
  EXPECT_EQ(document["visible_devices"], json::array());
}

TEST(CliDevices, JsonOfANodeThatIsNotKnown) {
  const json document = devices_json(recorded("two-sockets-smt"));
  const json& unknown = document["devices"][1];
  EXPECT_EQ(unknown["pci_address"], "0000:5e:00.0");
  EXPECT_EQ(unknown["node"], nullptr);
  EXPECT_EQ(unknown["node_source"], "unknown");
  EXPECT_EQ(unknown["cpus"], nullptr);
  EXPECT_FALSE(unknown.contains("reported_node"));
  EXPECT_EQ(document["devices"][2]["node_source"], "local-cpulist");
}

TEST(CliDevices, JsonOfWhatThisProcessSees) {
  devices_facts machine;
  device_facts one;
  one.device = {pci_address{0, 0x3b, 0, 0}, "NVIDIA H100", "GPU-8f3c"};
  one.where.ordinal = 1;
  one.where.node = node_id(1);
  one.where.source = node_source::nvml;
  one.neighbours = {"pci0000:3a", {"eno1"}};
  machine.devices = {one};
  machine.visible = {{std::nullopt, "", "nobody knows"}, {one.device.address, "GPU-8f3c", ""}};
  const json document = devices_json(machine);
  EXPECT_EQ(document["devices"][0]["uuid"], "GPU-8f3c");
  EXPECT_EQ(document["devices"][0]["ordinal"], 1);
  EXPECT_EQ(document["devices"][0]["network_interfaces"], json::array({"eno1"}));
  EXPECT_EQ(document["visible_devices"][0]["pci_address"], nullptr);
  EXPECT_EQ(document["visible_devices"][0]["reason"], "nobody knows");
  EXPECT_EQ(document["visible_devices"][1]["ordinal"], 1);
  EXPECT_THAT(devices_text(machine), HasSubstr("ordinal 0: nobody knows"));
}

TEST(CliDevices, TextOfARecordedMachine) {
  const std::string text = devices_text(recorded("two-gpus-a-node"));
  EXPECT_THAT(text, HasSubstr("0  0000:17:00.0"));
  EXPECT_THAT(text, HasSubstr("0-7,128-135"));
  EXPECT_THAT(text, HasSubstr("ens24f1np1"));
  EXPECT_THAT(devices_text(recorded("gb200")), HasSubstr("node 10 is its own memory"));
  EXPECT_THAT(devices_text(recorded("two-sockets-smt")), HasSubstr("unknown"));
  EXPECT_EQ(devices_text(recorded("offline-cpu")), "the recording lists no NVIDIA GPU\n");
  EXPECT_EQ(devices_text({}), "neither sysfs nor NVML lists an NVIDIA GPU here\n");
}

}  // namespace
}  // namespace numapool::cli
