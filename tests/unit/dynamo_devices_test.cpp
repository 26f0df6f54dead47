// SPDX-License-Identifier: Apache-2.0

// Goal: each GPU function of dynamo-memory's numa module (E1 and E1b) has its counterpart here with
// the same answers. Method: the functions over fake programs, one test a path of the original; its
// private cuda_device_id_to_nvidia_smi_id is dynamo_nvidia_smi_id, and has its column in
// visible_devices_test too.

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/device.hpp>

#include "device/dynamo_compat.hpp"
#include "support/device_fakes.hpp"

namespace numapool::device {
namespace {

using testing::ElementsAre;

class DynamoDevices : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  node_id ask(std::uint32_t ordinal, std::optional<std::string_view> visible = std::nullopt) {
    return dynamo_node_of(&programs_, visible, ordinal);
  }
  tests::fake_programs programs_;
};

// cuda_device_id_to_nvidia_smi_id

TEST_F(DynamoDevices, IdIsTheOrdinalWhereNothingIsRemapped) {
  EXPECT_EQ(dynamo_id_of(std::nullopt, 3), "3");
  EXPECT_EQ(dynamo_id_of("", 3), "3");
  EXPECT_EQ(dynamo_id_of(" \t", 3), "3");
}

TEST_F(DynamoDevices, IdIsTheEntryAsItStands) {
  EXPECT_EQ(dynamo_id_of("2,3", 1), "3");
  EXPECT_EQ(dynamo_id_of("GPU-8f3c,1", 0), "GPU-8f3c");
  EXPECT_EQ(dynamo_id_of("MIG-GPU-8f3c/1/0", 0), "MIG-GPU-8f3c/1/0");
  EXPECT_EQ(dynamo_id_of("-1,x", 1), "x");
}

TEST_F(DynamoDevices, IdSkipsBlanksAndEmptyEntries) {
  EXPECT_EQ(dynamo_id_of(" 4 ,, 5 ,", 1), "5");
  EXPECT_EQ(dynamo_id_of("\v4\f", 0), "4");
}

TEST_F(DynamoDevices, IdIsTheOrdinalWhereTheListIsTooShort) {
  EXPECT_EQ(dynamo_id_of("2,3", 2), "2");
  EXPECT_EQ(dynamo_id_of(",", 0), "0");
  EXPECT_EQ(dynamo_id_of("7", 4294967295U), "4294967295");
}

TEST_F(DynamoDevices, IdReadsTheEnvironmentAtEachCall) {
  ::setenv("CUDA_VISIBLE_DEVICES", "5,6", 1);
  EXPECT_EQ(dynamo_nvidia_smi_id(1), "6");
  ::setenv("CUDA_VISIBLE_DEVICES", "7,8", 1);
  EXPECT_EQ(dynamo_nvidia_smi_id(1), "8");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(dynamo_nvidia_smi_id(1), "1");
}

// get_device_numa_node

TEST_F(DynamoDevices, NodeIsWhatNvidiaSmiSaysOfThatId) {
  programs_.say("NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(ask(0, "2,3"), node_id(1));
  EXPECT_THAT(programs_.runs, ElementsAre(ElementsAre("nvidia-smi", "topo",
                                                      "--get-numa-id-of-nearby-cpu", "-i", "2")));
}

TEST_F(DynamoDevices, NodeIsAskedForAtEachCall) {
  programs_.say("x: 0\n");
  EXPECT_EQ(ask(0), node_id(0));
  programs_.say("x: 1\n");
  EXPECT_EQ(ask(0), node_id(1));
}

TEST_F(DynamoDevices, NodeIsOrdinalModuloTwoWhereNvidiaSmiFails) {
  programs_.be_missing();
  EXPECT_EQ(ask(0), node_id(0));
  EXPECT_EQ(ask(7), node_id(1));
  programs_.say("NUMA IDs of closest CPU: 0\n", 9);
  EXPECT_EQ(ask(3), node_id(1));
  programs_.hang();
  EXPECT_EQ(ask(5), node_id(1));
  EXPECT_EQ(dynamo_node_of(nullptr, std::nullopt, 4), node_id(0));
}

TEST_F(DynamoDevices, NodeIsUnknownWhereTheAnswerCannotBeRead) {
  for (const char* text : {"", "1\n", "x:\n", "x: N/A\n", "x: 0-1\n", "x: -1\n", "x: 4294967296\n",
                           "no colon\nx: 1\n"}) {
    programs_.say(text);
    EXPECT_TRUE(ask(1).is_unknown()) << text;
  }
}

TEST_F(DynamoDevices, NodeIsReadAsRustReadsIt) {
  programs_.say("x: +1: more\n");
  EXPECT_EQ(ask(0), node_id(1));
  programs_.say("x: 007 \r\n");
  EXPECT_EQ(ask(0), node_id(7));
  programs_.say("x: 4294967295\n");  // the original's UNKNOWN has this number
  EXPECT_TRUE(ask(0).is_unknown());
}

// test_get_device_numa_node_valid_gpu, which asks the machine it runs on and asserts nothing.
TEST_F(DynamoDevices, NodeOfThisMachinesFirstGpuIsANodeOrUnknown) {
  const node_id node = dynamo_device_node(0);
  EXPECT_TRUE(node.is_unknown() || node.value() <= node_set::id_max);
}

}  // namespace
}  // namespace numapool::device
