// SPDX-License-Identifier: Apache-2.0
#pragma once

// One node's threads, the functions queued for them, and the large works that they share piece by
// piece.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/execution_context.hpp>

#include <numapool/detail/node_executor.hpp>
#include <numapool/error.hpp>
#include <numapool/node.hpp>
#include <numapool/worker_pool.hpp>

#include "base/mutex.hpp"
#include "platform/platform.hpp"
#include "pool/job_queue.hpp"
#include "pool/sleepers.hpp"

namespace numapool::detail {

/// Work in pieces that any number of workers take. Owned by whoever made it; the workers let go of
/// it before finished() is called.
class piecewise_work {
 public:
  virtual ~piecewise_work() = default;
  /// Runs one piece. False: leave the rest.
  virtual bool run_piece(std::size_t piece) noexcept = 0;
  /// All pieces that were begun have ended. Called once, on the worker that ended the last; may
  /// destroy the work.
  virtual void finished() noexcept = 0;

 private:
  friend class node_workers;
  // Guarded by the workers' mutex.
  std::size_t next_ = 0;
  std::size_t count_ = 0;
  std::size_t running_ = 0;
  std::uint64_t passed_over_ = 0;
};

struct workers_options {
  node_id node;  // unknown: not pinned
  cpu_set cpus;  // where they run; empty: where the process may
  unsigned wanted = 1;
  std::function<void(const std::string& line)> log;
  std::chrono::nanoseconds worker_spin{0};  // without work, before it sleeps
  std::chrono::nanoseconds caller_spin{0};  // see caller_spin_of()
};

/// Threads: every member may be called by any thread.
class node_workers {
 public:
  node_workers(platform::platform& machine, boost::asio::execution_context& context,
               workers_options options);
  /// Requires: stopped and joined, or never started (checked, aborts).
  ~node_workers();
  node_workers(const node_workers&) = delete;
  node_workers& operator=(const node_workers&) = delete;

  /// Starts all threads; at once when they run already. A refused thread is fewer threads; none at
  /// all is errc::no_workers, and the next call tries again. errc::pool_shut_down after stop().
  [[nodiscard]] failure start();
  /// Takes no more; drops what is queued. Threads end when the works they share have ended.
  void stop() noexcept;
  void join() noexcept;

  [[nodiscard]] job& acquire() { return queue_.acquire(); }
  /// After stop() it is dropped: later, where the caller is one of these workers, which may be
  /// inside the call that must not hear of it; else now.
  void enqueue(job& ready) noexcept;
  /// Whether enqueue() leaves the job to one of the threads.
  [[nodiscard]] bool takes_more() const;
  /// Shares `work` of `pieces` > 0 among the workers. Call it on a worker: works added by others
  /// could come after stop().
  void share(piecewise_work& work, std::size_t pieces);
  [[nodiscard]] bool runs_here() const noexcept;
  /// Returns at a moment when nothing is queued, running or shared.
  void wait_idle();

  [[nodiscard]] node_id node() const noexcept { return options_.node; }
  [[nodiscard]] std::chrono::nanoseconds caller_spin() const noexcept {
    return options_.caller_spin;
  }
  [[nodiscard]] boost::asio::execution_context& context() const noexcept { return context_; }
  [[nodiscard]] node_executor executor() noexcept { return {*this, false}; }
  [[nodiscard]] unsigned running() const;
  [[nodiscard]] bool all_pinned() const;
  void add_to(node_stats& stats) const;  ///< all fields but the allocations

 private:
  void start_threads() NUMAPOOL_REQUIRES(mutex_);
  void start_thread() NUMAPOOL_REQUIRES(mutex_);
  void run() noexcept;
  void check_pinning();
  [[nodiscard]] bool try_run_piece();
  void run_piece(piecewise_work& work) NUMAPOOL_REQUIRES(mutex_);  // gives up the mutex meanwhile
  [[nodiscard]] piecewise_work* next_work() NUMAPOOL_REQUIRES(mutex_);
  void leave_rest(piecewise_work& work) NUMAPOOL_REQUIRES(mutex_);
  void end_work(piecewise_work& work) NUMAPOOL_REQUIRES(mutex_);
  [[nodiscard]] job* run_job(job& next) noexcept;
  [[nodiscard]] bool wait_for_work();
  [[nodiscard]] bool spin_for_work() const;
  void tell_if_idle();
  [[nodiscard]] bool has_something() const noexcept;
  [[nodiscard]] bool may_end() const noexcept { return is_stopping_ && shared_count_ == 0; }
  [[nodiscard]] bool is_idle() const NUMAPOOL_REQUIRES(mutex_);

  // Constant after construction.
  platform::platform& machine_;
  boost::asio::execution_context& context_;
  const workers_options options_;

  job_queue queue_;
  sleepers sleepers_;
  // Written under the mutex, looked at without.
  std::atomic<bool> is_ready_{false};  // all threads run, and have read their masks back
  std::atomic<bool> is_stopping_{false};
  std::atomic<std::size_t> shared_count_{0};
  std::atomic<std::size_t> with_pieces_{0};  // of those, the ones with pieces left to take
  std::atomic<bool> is_idle_awaited_{false};

  mutable base::mutex mutex_;
  std::condition_variable idle_;
  std::condition_variable all_checked_;  // every thread has read its mask back
  std::vector<piecewise_work*> shared_ NUMAPOOL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<platform::thread>> threads_ NUMAPOOL_GUARDED_BY(mutex_);
  unsigned busy_ NUMAPOOL_GUARDED_BY(mutex_) = 0;  // with a piece
  unsigned pinned_ NUMAPOOL_GUARDED_BY(mutex_) = 0;
  unsigned checked_ NUMAPOOL_GUARDED_BY(mutex_) = 0;
  boost::system::error_code start_error_ NUMAPOOL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> jobs_done_{0};
};

}  // namespace numapool::detail
