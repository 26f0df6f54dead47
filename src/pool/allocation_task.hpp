// SPDX-License-Identifier: Apache-2.0
#pragma once

// One asynchronous allocation: carries a memory::allocation through the workers to its handler.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/executor_work_guard.hpp>

#include <numapool/detail/submit.hpp>

#include "base/mutex.hpp"
#include "memory/allocation.hpp"
#include "pool/pool_core.hpp"

namespace numapool::detail {

/// Life: prepare() and start() on the caller's thread -> begin() on a worker -> pieces on all of
/// them -> finished() on one -> the handler on its executor. Owns itself (self_) from start() to
/// the completion.
class allocation_task final : public piecewise_work,
                              public std::enable_shared_from_this<allocation_task> {
 public:
  allocation_task(pool_core& pool, const request& what, numapool::route route);

  /// Asks what can be refused at once: the request itself, its workers. On a failure the task is
  /// good for nothing more.
  [[nodiscard]] failure prepare();
  /// Queues it. Completes the handler exactly once, never inside this call. Requires: prepared.
  void start(allocation_handler handler);

  bool run_piece(std::size_t piece) noexcept override;
  void finished() noexcept override;  // NOLINT(bugprone-exception-escape): see complete()

 private:
  using clock = std::chrono::steady_clock;

  // The queued functions. When the pool shuts down first, they are abandoned instead of called.
  struct resolving;
  struct beginning;

  void take(const target& where);
  void enqueue_beginning();
  void begin();
  void listen_for_cancellation();
  void fail(failure why) noexcept;
  [[nodiscard]] failure interruption();
  void log_degradations(const buffer& result) const;
  /// A handler's executor that throws instead of taking the completion leaves nobody to tell: the
  /// process ends.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  void complete(buffer result) noexcept;
  void complete_with(failure why) noexcept;  // NOLINT(bugprone-exception-escape): likewise

  // Constant once queued.
  pool_core& pool_;
  request what_;
  node_source node_source_ = node_source::unknown;
  numapool::route route_;
  bool must_resolve_ = false;  // the request names a device: a worker is to find its node
  node_workers* workers_ = nullptr;
  allocation_counts* counts_ = nullptr;  // null until the node is known

  allocation_handler handler_;
  std::optional<boost::asio::executor_work_guard<boost::asio::any_completion_executor>> work_;
  bool completes_on_workers_ = false;  // the handler brought no executor of its own
  std::shared_ptr<allocation_task> self_;
  std::optional<memory::allocation> allocation_;
  clock::time_point deadline_ = clock::time_point::max();

  std::atomic<bool> is_cancelled_{
      false};  // set by the slot's handler on any thread; only looked at
  base::mutex mutex_;
  failure why_ NUMAPOOL_GUARDED_BY(mutex_);  // the first failure of any piece
};

}  // namespace numapool::detail
