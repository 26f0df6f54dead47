// SPDX-License-Identifier: Apache-2.0
#pragma once

// Other ways to have an empty job done by one other thread, each as its users would write it.

#include <functional>
#include <string>
#include <vector>

#include "peer_report.hpp"

namespace numapool::bench {

/// The shapes of dispatch_shapes.hpp. Threads: one caller at a time.
struct dispatch_peer {
  std::string name;
  std::function<void()> round_trip;
  std::function<void()> in_flight;
  std::function<void()> posted;
};
using dispatch_peers = std::vector<dispatch_peer>;

/// A queue under std::mutex with std::condition_variable, and std::packaged_task.
void add_standard_library(dispatch_peers& peers);
/// Asio's thread_pool of one thread, and an io_context with one.
void add_asio(dispatch_peers& peers);
/// One thread of a task_arena, and a promise a job.
void add_onetbb(dispatch_peers& peers, peer_report& report);
/// Boost.Thread's basic_thread_pool of one thread, and a promise a job.
void add_boost_thread(dispatch_peers& peers, peer_report& report);

}  // namespace numapool::bench
