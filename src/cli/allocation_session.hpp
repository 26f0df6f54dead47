// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several buffers allocated at once and held, while SIGINT and SIGTERM mean "undo it all".

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <numapool/worker_pool.hpp>

#include "cli/command.hpp"
#include "cli/termination_signals.hpp"

namespace numapool::cli {

/// Threads: one thread uses it; completions are brought to that thread. The pool outlives it.
/// Owns: the buffers, and from construction to destruction the process's SIGINT and SIGTERM and the
/// gates of the console's outputs.
class allocation_session {
 public:
  allocation_session(worker_pool& pool, console& where);
  ~allocation_session();  // NOLINT(bugprone-exception-escape): see there
  allocation_session(const allocation_session&) = delete;
  allocation_session& operator=(const allocation_session&) = delete;

  /// Allocates all of them concurrently; buffers() then has one for each. Blocks.
  /// The first failure, or a signal, cancels the rest and releases what was there: throws
  /// numapool::error with that failure, or interrupted.
  void allocate(const std::vector<request>& requests);
  [[nodiscard]] const std::vector<buffer>& buffers() const noexcept { return buffers_; }

  /// Waits that long or until a signal, which it returns; 0 when the time passed.
  [[nodiscard]] int hold(std::chrono::milliseconds time);
  /// The signal that arrived, which also ends what waits to be written to the console; 0: none.
  [[nodiscard]] int signal() const noexcept { return signals_.arrived(); }

 private:
  void finish(std::size_t index, const boost::system::error_code& error, buffer made);
  void cancel_all();
  void show_progress();
  void clear_progress();

  worker_pool& pool_;
  console& where_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  termination_signals signals_;
  boost::asio::posix::stream_descriptor signal_watch_;
  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point started_;
  std::deque<boost::asio::cancellation_signal> cancellations_;  // a signal does not move
  std::vector<buffer> buffers_;
  std::size_t pending_ = 0;
  bool progress_shown_ = false;
  failure first_failure_;
};

}  // namespace numapool::cli
