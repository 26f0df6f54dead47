// SPDX-License-Identifier: Apache-2.0

// Goal: whatever NVML and nvidia-smi do, the chain has the right answer or none, within the limit,
// and leaves no child, no zombie and no thread.
// Method: the chain over the real loader and the real runner of programs, with the fake library and
// the fake program of tests/support, on a machine in memory whose files do not tell the node.

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device_chain.hpp"
#include "fake_nvml_control.h"
#include "platform/nvml_library.hpp"
#include "programs_run.hpp"
#include "support/text_files.hpp"
#include "topology/topology_builder.hpp"

namespace numapool::device {
namespace {

using platform::test::threads_now;
using std::chrono::milliseconds;
using testing::HasSubstr;

const pci_address gpu{0, 0x3b, 0, 0};

tests::text_files two_node_files() {
  const std::string folder = "/sys/bus/pci/devices/0000:3b:00.0/";
  return tests::text_files{{"/sys/devices/system/cpu/online", "0-39\n"},
                           {"/sys/devices/system/node/node0/cpulist", "0-19\n"},
                           {"/sys/devices/system/node/node1/cpulist", "20-39\n"},
                           {folder + "vendor", "0x10de\n"},
                           {folder + "class", "0x030200\n"},
                           {folder + "numa_node", "-1\n"},
                           {folder + "local_cpulist", "0-39\n"}};
}

class DeviceTools : public testing::Test {
 protected:
  DeviceTools() {
    fake_nvml_reset();
    ::setenv("PATH", FAKE_NVIDIA_SMI_FOLDER, 1);
  }
  ~DeviceTools() override {
    EXPECT_TRUE(platform::test::children_go(programs_));
    ::unsetenv("NUMAPOOL_FAKE_NVIDIA_SMI");
    fake_nvml_reset();
    for (int i = 0; i < 1000 && threads_now() > threads_; ++i) {
      ::usleep(1000);
    }
    EXPECT_EQ(threads_now(), threads_);
    EXPECT_EQ(fake_nvml_references(), 0U);
  }

  device_location find(const std::string& behaviour, milliseconds limit,
                       const std::string& nvml_file = FAKE_NVML) {
    ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", behaviour.c_str(), 1);
    const tests::text_files files = two_node_files();
    const topology nodes = topology_builder::read(files, nullptr);
    platform::nvml_library nvml(nvml_file);
    const device_sources sources{files, nodes, nullptr, &nvml, &programs_, &cache_};
    device_options options;
    options.allow_heuristic = false;
    options.nvidia_smi_timeout = limit;
    const auto begin = std::chrono::steady_clock::now();
    device_location found = locate_address(sources, gpu, options);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * limit);
    return found;
  }

  const long threads_ = threads_now();
  platform::linux_programs programs_;
  device_cache cache_;
};

struct answer_row {
  const char* behaviour;
  std::optional<node_id> node;
  const char* reason;  // part of it, where there is no node
  milliseconds limit{20'000};
};
void PrintTo(const answer_row& row, std::ostream* stream) {
  *stream << row.behaviour;
}

const std::vector<answer_row> answers = {
    {"node:1", node_id(1), ""},
    {"node:0", node_id(0), ""},
    {"node:N/A", std::nullopt, "N/A"},
    {"node:0-1", std::nullopt, "0-1"},
    {"node:0,2-17", std::nullopt, "0,2-17"},
    {"node:", std::nullopt, "not one node"},
    {"node:7", std::nullopt, "names node 7"},
    {"print:", std::nullopt, "not one node"},
    {"colour", std::nullopt, "not one node"},
    {"garbage", std::nullopt, "nvidia-smi"},
    {"flood", std::nullopt, "nvidia-smi"},
    {"usage", std::nullopt, "exit status is 9"},
    {"exit:1", std::nullopt, "exit status is 1"},
    {"crash", std::nullopt, "signal"},
    {"sleep", std::nullopt, "no answer within 300 ms", milliseconds(300)},
    {"mute", std::nullopt, "no answer within 300 ms", milliseconds(300)},
    {"hold", node_id(1), ""},
};

class NvidiaSmiAnswers : public DeviceTools, public testing::WithParamInterface<answer_row> {};
INSTANTIATE_TEST_SUITE_P(Table, NvidiaSmiAnswers, testing::ValuesIn(answers));

TEST_P(NvidiaSmiAnswers, AreANodeOrNoneWithinTheLimit) {
  const answer_row& row = GetParam();
  const device_location found = find(row.behaviour, row.limit);
  EXPECT_EQ(found.node, row.node.value_or(node_id::unknown)) << found.reason;
  EXPECT_EQ(found.source, row.node ? node_source::nvidia_smi : node_source::unknown);
  EXPECT_THAT(found.reason, HasSubstr(row.reason));
}

TEST_F(DeviceTools, ProgramThatIsMissingIsAReason) {
  ::setenv("PATH", "/nonexistent", 1);
  EXPECT_THAT(find("node:1", milliseconds(20'000)).reason, HasSubstr("could not be started"));
}

TEST_F(DeviceTools, HungProgramIsWaitedForOnce) {
  EXPECT_TRUE(find("sleep", milliseconds(300)).node.is_unknown());
  EXPECT_THAT(find("node:1", milliseconds(20'000)).reason, HasSubstr("no answer within 300 ms"));
  cache_.forget();
  EXPECT_EQ(find("node:1", milliseconds(20'000)).node, node_id(1));
}

TEST_F(DeviceTools, NvmlComesBeforeNvidiaSmi) {
  fake_nvml_set_devices("00000000:3B:00.0=GPU-8f3c@1");
  const device_location found = find("node:0", milliseconds(20'000));
  EXPECT_EQ(found.node, node_id(1));
  EXPECT_EQ(found.source, node_source::nvml);
}

TEST_F(DeviceTools, NvmlThatSaysNothingLeavesItToNvidiaSmi) {
  for (const char* devices :
       {"00000000:3B:00.0=GPU-8f3c", "00000000:3B:00.0=GPU-8f3c@", "00000000:3B:00.0=GPU-8f3c@0-1",
        "00000000:3B:00.0=GPU-8f3c;lost=15", "00000000:86:00.0=GPU-91aa@1", ""}) {
    cache_.forget();
    fake_nvml_set_devices(devices);
    EXPECT_EQ(find("node:1", milliseconds(20'000)).source, node_source::nvidia_smi) << devices;
  }
}

TEST_F(DeviceTools, NvmlsCpusTellTheNodeWhereItsNodesAreSeveral) {
  fake_nvml_set_devices("00000000:3B:00.0=GPU-8f3c@0,2-17;cpus=20-39");
  EXPECT_EQ(find("node:0", milliseconds(20'000)).node, node_id(1));
}

TEST_F(DeviceTools, LibraryThatIsMissingOrFailsIsAReason) {
  EXPECT_THAT(find("usage", milliseconds(20'000), "/nonexistent/libnvidia-ml.so.1").reason,
              HasSubstr("is not here"));
  cache_.forget();
  fake_nvml_fail_nth("nvmlInitWithFlags", 0, 9);
  fake_nvml_fail_nth("nvmlInit_v2", 0, 9);
  EXPECT_THAT(find("usage", milliseconds(20'000)).reason, HasSubstr("NVML cannot be asked"));
}

}  // namespace
}  // namespace numapool::device
