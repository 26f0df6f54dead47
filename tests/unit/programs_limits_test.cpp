// SPDX-License-Identifier: Apache-2.0
//
// Goal: no program holds the caller beyond its limit: not one that sleeps, nor one whose child
// holds the pipe, nor one that cannot be killed; and nothing of any of them stays.
// Method: as programs_test.cpp. Time is only compared with the limit, generously.

#include <sys/prctl.h>

#include <thread>

#include "programs_run.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;
using test::impatience;
using test::is_running;
using test::patience;

using ProgramLimits = test::ProgramsTest;
INSTANTIATE_TEST_SUITE_P(Watch, ProgramLimits,
                         testing::Values(exit_watch::pidfd, exit_watch::polling), test::watch_name);

TEST_P(ProgramLimits, AProgramThatSleepsDeafToTermIsKilled) {
  for (const char* behaviour : {"sleep", "mute"}) {
    ASSERT_EQ(run(behaviour, {impatience}), error_code{});
    EXPECT_TRUE(answer_.is_timed_out) << behaviour;
    EXPECT_EQ(answer_.exit_status, -1);
    EXPECT_FALSE(answer_.is_status_lost);
    EXPECT_EQ(answer_.output, "");
  }
}

TEST_P(ProgramLimits, NoTimeIsNoAnswer) {
  for (const milliseconds time : {milliseconds{0}, milliseconds{-1}, milliseconds::min()}) {
    ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "sleep", 1);
    ASSERT_EQ(programs_.run({"nvidia-smi"}, {time}, answer_), error_code{});
    EXPECT_TRUE(answer_.is_timed_out);
  }
  EXPECT_TRUE(test::children_go(programs_));
}

TEST_P(ProgramLimits, TimeWithoutEndIsALongTime) {
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "node:1", 1);
  ASSERT_EQ(programs_.run({"nvidia-smi"}, {milliseconds::max()}, answer_), error_code{});
  EXPECT_EQ(answer_.exit_status, 0);
}

TEST_P(ProgramLimits, AChildThatHoldsThePipeIsNotWaitedForAndIsKilled) {
  ASSERT_EQ(run("hold"), error_code{});
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answer_.exit_status, 0);
  EXPECT_FALSE(answer_.is_timed_out);
  ASSERT_GT(told_child(), 0);
  for (int i = 0; i < 1000 && is_running(told_child()); ++i) {
    ::usleep(10'000);
  }
  EXPECT_FALSE(is_running(told_child()));
}

// The init of a container is in this position.
TEST_P(ProgramLimits, ASubreaperIsLeftWithoutTheProgramsChildren) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  ASSERT_EQ(run("hold"), error_code{});
  EXPECT_EQ(answer_.exit_status, 0);
  EXPECT_TRUE(test::children_go(programs_));
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
}

TEST_P(ProgramLimits, AChildInAnotherSessionIsNotWaitedForEither) {
  ASSERT_EQ(run("daemon"), error_code{});
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answer_.exit_status, 0);
  ASSERT_GT(told_child(), 0);
  ::kill(told_child(), SIGKILL);
}

// A program that is traced dies when it is killed, but stays until its tracer has heard of it.
TEST_P(ProgramLimits, AProgramThatCannotBeReapedIsLeftToALaterRun) {
  ASSERT_EQ(run("traced", {milliseconds{2000}}), error_code{});
  if (!answer_.is_timed_out || !test::has_children()) {
    GTEST_SKIP() << "no process may be traced here, or it took too long";
  }
  EXPECT_EQ(answer_.exit_status, -1);
  ASSERT_EQ(run("node:1"), error_code{});
  EXPECT_TRUE(test::has_children());
  ASSERT_GT(told_child(), 0);
  ::kill(told_child(), SIGKILL);
  EXPECT_TRUE(test::children_go(programs_));
}

TEST_P(ProgramLimits, EightThreadsAtOnceGetEachItsOwnAnswer) {
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI",
           "0=node:0|1=sleep|2=usage|3=flood|4=hold|5=node:5|6=crash|7=mute", 1);
  std::vector<program_answer> answers(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      const bool is_endless = i == 1 || i == 7;
      for (int round = 0; round < 4; ++round) {
        EXPECT_EQ(programs_.run({"nvidia-smi", "-i", std::to_string(i)},
                                {is_endless ? impatience : patience}, answers[i]),
                  error_code{});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(answers[0].output, "NUMA IDs of closest CPU: 0\n");
  EXPECT_TRUE(answers[1].is_timed_out && answers[7].is_timed_out);
  EXPECT_EQ(answers[2].exit_status, 9);
  EXPECT_TRUE(answers[3].is_cut);
  EXPECT_EQ(answers[4].output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answers[5].output, "NUMA IDs of closest CPU: 5\n");
  EXPECT_EQ(answers[6].exit_status, -1);
  EXPECT_TRUE(test::children_go(programs_));
}

TEST_P(ProgramLimits, NothingGathersOverManyRuns) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(run("node:1"), error_code{});
  }
  EXPECT_EQ(test::entries("/proc/self/fd"), files_);
}

}  // namespace
}  // namespace numapool::platform
