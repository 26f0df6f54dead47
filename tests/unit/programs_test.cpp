// SPDX-License-Identifier: Apache-2.0
//
// Goal: a program's answer is its own, whole, and says when it is not; starting one touches nothing
// of the caller's.
// Method: the real runner on the fake nvidia-smi, with pidfds and without. The programs that do not
// end are in programs_limits_test.cpp.

#include <sys/resource.h>
#include <sys/time.h>

#include <array>

#include "programs_run.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;
using test::patience;
using testing::HasSubstr;

using Programs = test::ProgramsTest;
INSTANTIATE_TEST_SUITE_P(Watch, Programs, testing::Values(exit_watch::pidfd, exit_watch::polling),
                         test::watch_name);

error_code failure(int number) {
  return {number, boost::system::system_category()};
}

TEST_P(Programs, AnswersWithTheOutputAndTheExitStatus) {
  struct {
    const char* behaviour;
    const char* output;
    int exit_status;
  } const rows[] = {
      {"node:1", "NUMA IDs of closest CPU: 1\n", 0},
      {"node:N/A", "NUMA IDs of closest CPU: N/A\n", 0},
      {"node:0,2-17", "NUMA IDs of closest CPU: 0,2-17\n", 0},
      {"print:", "\n", 0},
      {"colour", "\033[4mNUMA IDs of closest CPU\033[0m: \033[1m1\033[0m\n", 0},
      {"exit:0", "", 0},
      {"exit:255", "", 255},
      {"usage", "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n",
       9},
      {"crash", "NUMA IDs of clo", -1},
  };
  for (const auto& row : rows) {
    ASSERT_EQ(run(row.behaviour), error_code{}) << row.behaviour;
    EXPECT_EQ(answer_.output, row.output);
    EXPECT_EQ(answer_.exit_status, row.exit_status) << row.behaviour;
    EXPECT_FALSE(answer_.is_timed_out || answer_.is_cut || answer_.is_status_lost) << row.behaviour;
  }
}

TEST_P(Programs, EveryByteIsKept) {
  ASSERT_EQ(run("garbage"), error_code{});
  ASSERT_EQ(answer_.output.size(), 256U);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(static_cast<unsigned char>(answer_.output[i]), i);
  }
  ASSERT_EQ(run("print:" + std::string(40'000, 'x')), error_code{});
  EXPECT_EQ(answer_.output.size(), 40'001U);
  EXPECT_FALSE(answer_.is_cut);
}

TEST_P(Programs, TooMuchOutputIsCutAndEndsTheProgram) {
  ASSERT_EQ(run("flood", {patience, 10'000}), error_code{});
  EXPECT_TRUE(answer_.is_cut);
  EXPECT_FALSE(answer_.is_timed_out);
  std::string lines;
  while (lines.size() < 10'000) {
    lines += std::string(1023, 'x') + "\n";
  }
  EXPECT_EQ(answer_.output, lines.substr(0, 10'000));
}

TEST_P(Programs, OutputOfExactlyTheLimitIsWhole) {
  ASSERT_EQ(run("print:four", {patience, 5}), error_code{});
  EXPECT_EQ(answer_.output, "four\n");
  EXPECT_FALSE(answer_.is_cut);
  ASSERT_EQ(run("print:four", {patience, 4}), error_code{});
  EXPECT_EQ(answer_.output, "four");
  EXPECT_TRUE(answer_.is_cut);
  ASSERT_EQ(run("exit:3", {patience, 0}), error_code{});
  EXPECT_FALSE(answer_.is_cut);
}

TEST_P(Programs, APathIsTakenAsItIs) {
  ::setenv("PATH", "", 1);
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "node:1", 1);
  ASSERT_EQ(programs_.run({FAKE_NVIDIA_SMI_FOLDER "/nvidia-smi"}, {patience}, answer_),
            error_code{});
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
}

TEST_P(Programs, WhatCannotBeStartedSaysWhy) {
  EXPECT_EQ(programs_.run({"numapool-no-such-program"}, {patience}, answer_), failure(ENOENT));
  EXPECT_EQ(programs_.run({"/nonexistent/nvidia-smi"}, {patience}, answer_), failure(ENOENT));
  EXPECT_EQ(programs_.run({"/etc/passwd"}, {patience}, answer_), failure(EACCES));
  EXPECT_EQ(programs_.run({}, {patience}, answer_), failure(EINVAL));
  EXPECT_EQ(answer_.exit_status, -1);
}

// ---- What the program gets of us

TEST_P(Programs, GetsItsArgumentsAndNoShell) {
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "describe", 1);
  ASSERT_EQ(programs_.run({"nvidia-smi", "$(exit 1)", "", "a b;c"}, {patience}, answer_),
            error_code{});
  EXPECT_THAT(answer_.output, HasSubstr("argument=$(exit 1)\nargument=\nargument=a b;c\n"));
}

TEST_P(Programs, InheritsNoDescriptorMaskOrDisposition) {
  const int inheritable = ::open("/dev/null", O_RDONLY);  // as careless libraries do
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, nullptr), 0);
  ::signal(SIGPIPE, SIG_IGN);
  ASSERT_EQ(run("describe"), error_code{});
  EXPECT_THAT(answer_.output, HasSubstr("files=0,1,2\ninput=/dev/null\nerrors=/dev/null\n"
                                        "leads_group=1\nblocked=0\nignored=0\nargument=topo\n"));
  sigset_t now;
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &blocked, &now), 0);
  EXPECT_TRUE(::sigismember(&now, SIGTERM) == 1 && ::sigismember(&now, SIGUSR1) == 1);
  EXPECT_EQ(::sigismember(&now, SIGCHLD), 0);
  EXPECT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_IGN);
  ::close(inheritable);
}

TEST_P(Programs, AProcessWithoutStandardDescriptorsCanRunOne) {
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "describe", 1);
  const std::string right = "files=0,1,2\ninput=/dev/null\nerrors=/dev/null\n";
  for (unsigned int missing = 1; missing < 8; ++missing) {  // a bit for each of the three
    const pid_t child = ::fork();
    if (child == 0) {
      for (int standard = 0; standard < 3; ++standard) {
        if ((missing >> standard & 1U) != 0) {
          ::close(standard);
        }
      }
      const bool has_run = !programs_.run({"nvidia-smi"}, {patience}, answer_);
      ::_exit(has_run && answer_.output.rfind(right, 0) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << missing;
  }
}

// ---- What we leave of the caller

TEST_P(Programs, OtherChildrenAreTheCallersToReap) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(7);
  }
  siginfo_t how{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(run("node:1"), error_code{});
  EXPECT_EQ(answer_.exit_status, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_P(Programs, WorksWhereSigchldIsIgnored) {
  ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run("usage"), error_code{});
  EXPECT_THAT(answer_.output, HasSubstr("Invalid combination"));
  // Where the status cannot be had it is said to be lost, and never taken for 0.
  EXPECT_EQ(answer_.exit_status, answer_.is_status_lost ? -1 : 9);
  EXPECT_EQ(run("node:1"), error_code{});
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answer_.exit_status, answer_.is_status_lost ? -1 : 0);
  EXPECT_EQ(run("crash"), error_code{});
  EXPECT_EQ(answer_.exit_status, -1);
  EXPECT_EQ(run("sleep", {test::impatience}), error_code{});
  EXPECT_TRUE(answer_.is_timed_out);
  EXPECT_FALSE(answer_.is_status_lost);
  EXPECT_EQ(::signal(SIGCHLD, SIG_DFL), SIG_IGN);
}

volatile sig_atomic_t alarms = 0;

TEST_P(Programs, SignalsThatInterruptUsAreNoFailure) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {
    alarms = alarms + 1;
  };  // no SA_RESTART
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 2000}, {0, 2000}};
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  EXPECT_EQ(run("sleep", {test::impatience}), error_code{});
  EXPECT_TRUE(answer_.is_timed_out);
  EXPECT_EQ(run("node:1"), error_code{});
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answer_.exit_status, 0);
  EXPECT_GT(alarms, 0);
}

// With one descriptor left there is no pipe; with two, no pidfd.
TEST_P(Programs, DescriptorsThatRunOutAreAnErrorOrDoneWithout) {
  // GCC's undefined behaviour sanitizer opens a pipe at the first virtual call of each kind.
  ASSERT_EQ(run("node:1"), error_code{});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(lowest);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(lowest) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(run("node:1"), failure(EMFILE));
  small.rlim_cur += 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(run("node:1"), error_code{});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(answer_.output, "NUMA IDs of closest CPU: 1\n");
  EXPECT_EQ(answer_.exit_status, 0);
}

}  // namespace
}  // namespace numapool::platform
