// SPDX-License-Identifier: Apache-2.0

// Goal: only a plain number is an answer of nvidia-smi's, and what failed once is not waited for
// again. Method: fake programs; the limits themselves are the platform's and tested there.

#include "device/nvidia_smi.hpp"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/device_fakes.hpp"

namespace numapool::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(NvidiaSmiAnswer, IsTheNumberBehindTheFirstColon) {
  EXPECT_EQ(read_nvidia_smi_answer("NUMA IDs of closest CPU: 1\n"), node_id(1));
  EXPECT_EQ(read_nvidia_smi_answer("NUMA IDs of closest CPU:0"), node_id(0));
  EXPECT_EQ(read_nvidia_smi_answer("x: \t12 \r\nsecond line: 3\n"), node_id(12));
}

TEST(NvidiaSmiAnswer, IsNothingElse) {
  for (const char* text : {"",
                           "\n",
                           "1\n",
                           "NUMA IDs of closest CPU:",
                           "x: \n",
                           "x: N/A\n",
                           "x: 0-1\n",
                           "x: 0,2-17\n",
                           "x: -1\n",
                           "x: 1 2\n",
                           "x: +1\n",
                           "x: 0x1\n",
                           "x: \x1b[4m1\x1b[0m\n",
                           "a: 0: 1\n",
                           "x: 4294967296\n",
                           "x: 4294967295\n",
                           "\nx: 1\n",
                           "Invalid combination of input arguments.\n",
                           "x: 1.0\n",
                           "x: \xff\n"}) {
    EXPECT_EQ(read_nvidia_smi_answer(text), std::nullopt) << text;
  }
}

class NvidiaSmi : public testing::Test {
 protected:
  nvidia_smi_answer ask(const std::string& id = "0000:3b:00.0") {
    return ask_nvidia_smi(programs_, &cache_, id, 50ms);
  }
  tests::fake_programs programs_;
  device_cache cache_;
};

TEST_F(NvidiaSmi, IsAskedWithoutAShellAndWithinTheTime) {
  programs_.say("NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(ask().node, node_id(1));
  EXPECT_THAT(programs_.runs,
              ElementsAre(ElementsAre("nvidia-smi", "topo", "--get-numa-id-of-nearby-cpu", "-i",
                                      "0000:3b:00.0")));
  EXPECT_EQ(programs_.last_limit, 50ms);
}

TEST_F(NvidiaSmi, MissingIsNotLookedForAgain) {
  programs_.be_missing();
  EXPECT_THAT(ask().reason, HasSubstr("could not be started"));
  programs_.say("x: 1\n");
  EXPECT_THAT(ask("another").reason, HasSubstr("could not be started"));
  EXPECT_EQ(programs_.runs.size(), 1U);
  cache_.forget();
  EXPECT_EQ(ask().node, node_id(1));
}

TEST_F(NvidiaSmi, HungOnceHoldsNobodyAgain) {
  programs_.hang();
  EXPECT_THAT(ask("first").reason, HasSubstr("no answer within 50 ms"));
  EXPECT_THAT(ask("second").reason, HasSubstr("no answer within 50 ms"));
  EXPECT_EQ(programs_.runs.size(), 1U);
}

TEST_F(NvidiaSmi, DiedIsOfAnyDevice) {
  programs_.say("x: 1\n", -1);
  EXPECT_THAT(ask("first").reason, HasSubstr("ended by a signal"));
  EXPECT_FALSE(ask("second").node);
  EXPECT_EQ(programs_.runs.size(), 1U);
}

TEST_F(NvidiaSmi, RefusalIsOfOneDevice) {
  programs_.say("NUMA IDs of closest CPU: 1\n", 9);
  EXPECT_THAT(ask("first").reason, HasSubstr("exit status is 9"));
  programs_.say("x: 0-1\n");
  EXPECT_THAT(ask("second").reason, HasSubstr("'x: 0-1'"));
  programs_.say("x: 0\n");
  EXPECT_FALSE(ask("first").node);
  EXPECT_FALSE(ask("second").node);
  EXPECT_EQ(ask("third").node, node_id(0));
  EXPECT_EQ(programs_.runs.size(), 3U);
}

TEST_F(NvidiaSmi, CutOutputIsNoAnswer) {
  programs_.say("x: 1\n");
  programs_.answer.is_cut = true;
  EXPECT_FALSE(ask().node);
}

TEST_F(NvidiaSmi, WithoutACacheIsAskedEachTime) {
  programs_.be_missing();
  for (int time = 0; time < 2; ++time) {
    EXPECT_FALSE(ask_nvidia_smi(programs_, nullptr, "0", 1ms).node);
  }
  EXPECT_EQ(programs_.runs.size(), 2U);
}

}  // namespace
}  // namespace numapool::device
