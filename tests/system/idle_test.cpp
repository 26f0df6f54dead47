// SPDX-License-Identifier: Apache-2.0

// Goal: a pool without work uses no CPU, also one that was told to spin.
// Method: the kernel's count of each worker's context switches, before and after a second in which
// nothing is asked for (NUMAPOOL_IDLE_SECONDS says another time). A thread that never runs makes
// none.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

namespace numapool {
namespace {

using namespace std::chrono_literals;

struct worker_state {
  char state = '?';  // proc(5): R runs, S sleeps
  std::uint64_t switches = 0;
};

worker_state read_state(const std::filesystem::path& task) {
  worker_state read;
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:")) {
      read.state = line.at(line.find_first_not_of(" \t", 6));
    } else if (line.find("ctxt_switches:") != std::string::npos) {
      read.switches += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  return read;
}

// By thread id.
std::map<std::string, worker_state> workers() {
  std::map<std::string, worker_state> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    std::getline(comm, name);
    if (name.starts_with("numapool-")) {
      found[entry.path().filename()] = read_state(entry.path());
    }
  }
  return found;
}

// What was asked for last may still be on its way to sleep.
void wait_until_all_sleep() {
  for (bool all = false; !all; std::this_thread::sleep_for(1ms)) {
    all = true;
    for (const auto& [id, worker] : workers()) {
      all = all && worker.state == 'S';
    }
  }
}

void expect_idle(const worker_pool_options& options) {
  worker_pool pool(options);
  const node_id node = pool.topology().nearest_usable_node(pool.topology().nodes().front().id);
  for (int i = 0; i < 100; ++i) {
    pool.submit(node, [] {});
  }
  wait_until_all_sleep();
  const auto before = workers();
  ASSERT_FALSE(before.empty());
  const char* const told = std::getenv("NUMAPOOL_IDLE_SECONDS");
  std::this_thread::sleep_for(std::chrono::seconds(told != nullptr ? std::stoi(told) : 1));
  for (const auto& [id, worker] : workers()) {
    EXPECT_EQ(worker.switches, before.at(id).switches) << "thread " << id << " ran";
    EXPECT_EQ(worker.state, 'S');
  }
}

TEST(IdlePool, NeverRuns) {
  expect_idle({});
}

TEST(IdlePool, NeverRunsAfterItHasSpun) {
  worker_pool_options options;
  options.worker_spin = options.caller_spin = worker_pool_options::spin_max;
  expect_idle(options);
}

}  // namespace
}  // namespace numapool
