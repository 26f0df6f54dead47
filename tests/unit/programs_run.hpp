// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of the program runner share: the fake nvidia-smi in PATH, and a look at what a run
// has left behind. Threads: not for concurrent use with setenv.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/linux_programs.hpp"

namespace numapool::platform::test {

using std::chrono::milliseconds;

// Long enough for a program that ends by itself, whatever else this machine does; less than what
// the fake takes that does not end by itself.
constexpr milliseconds patience{20'000};
constexpr milliseconds fakes_time{60'000};
constexpr milliseconds impatience{300};

inline long entries(const char* folder) {
  const std::filesystem::directory_iterator all{folder};
  return std::distance(begin(all), end(all));
}

// The thread sanitizer starts a thread of its own with the first one of ours.
inline long threads_now() {
  static const bool has_started_one = [] {
    std::thread{[] {
    }}.join();
    ::usleep(20'000);  // a thread that was joined stays in /proc for a moment
    return true;
  }();
  return has_started_one ? entries("/proc/self/task") : 0;
}

inline bool has_children() {
  siginfo_t how{};
  return ::waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

// Whether it is there and is not a zombie.
inline bool is_running(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(") ");
  return end != std::string::npos && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

// Whether no child is left. What was killed and slow to die, as on a busy machine, is reaped by a
// later run: there is one, until it is gone.
inline bool children_go(linux_programs& programs) {
  ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", "node:1", 1);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (has_children() && std::chrono::steady_clock::now() < end) {
    program_answer ignored;
    EXPECT_FALSE(programs.run({"nvidia-smi", "-i", "0"}, {patience}, ignored));
  }
  return !has_children();
}

// After each test: no child, no thread and no descriptor more than before.
class ProgramsTest : public testing::TestWithParam<exit_watch> {
 protected:
  ProgramsTest() {
    ::setenv("PATH", FAKE_NVIDIA_SMI_FOLDER, 1);
    ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI_LOG", log_.c_str(), 1);
  }
  ~ProgramsTest() override {
    EXPECT_TRUE(children_go(programs_));
    for (int i = 0; i < 1000 && threads_now() > threads_; ++i) {
      ::usleep(1000);
    }
    EXPECT_EQ(threads_now(), threads_);
    EXPECT_EQ(entries("/proc/self/fd"), files_);
    std::filesystem::remove(log_);
    ::unsetenv("NUMAPOOL_FAKE_NVIDIA_SMI");
    ::unsetenv("NUMAPOOL_FAKE_NVIDIA_SMI_LOG");
  }

  boost::system::error_code run(const std::string& behaviour, program_limits limits = {patience}) {
    ::setenv("NUMAPOOL_FAKE_NVIDIA_SMI", behaviour.c_str(), 1);
    const auto begin = std::chrono::steady_clock::now();
    const auto result = programs_.run({"nvidia-smi", "topo", "-i", "0"}, limits, answer_);
    took_ = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    EXPECT_LT(took_, fakes_time);
    return result;
  }

  // The child of which the fake has told; 0 if it has not.
  [[nodiscard]] pid_t told_child() const {
    std::ifstream file{log_};
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("child=", 0) == 0) {
        return std::stoi(line.substr(6));
      }
    }
    return 0;
  }

  const std::string log_ = std::filesystem::temp_directory_path() /
                           ("numapool-smi-" + std::to_string(::getpid()) + ".log");
  const long threads_ = threads_now();
  const long files_ = entries("/proc/self/fd");
  linux_programs programs_{GetParam()};
  program_answer answer_;
  milliseconds took_{};
};

inline std::string watch_name(const testing::TestParamInfo<exit_watch>& info) {
  return info.param == exit_watch::pidfd ? "pidfd" : "polling";
}

}  // namespace numapool::platform::test
