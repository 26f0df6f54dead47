// SPDX-License-Identifier: Apache-2.0
#pragma once

// Asynchronous takes that need a node's workers: a kept buffer to be zeroed, and an allocation that
// may be tried again.

#include <atomic>
#include <chrono>
#include <memory>

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>

#include "blocks/cache_core.hpp"
#include "blocks/zeroing.hpp"

namespace numapool::blocks {

/// A handler and where it completes; keeps the context of its executor from running dry.
class take_completion {
 public:
  /// By default it completes on `workers`.
  take_completion(detail::allocation_handler handler, detail::node_workers& workers);

  [[nodiscard]] boost::asio::cancellation_slot slot() const noexcept;
  /// Calls the handler. Requires: on a worker; or the pool is shutting down, and nobody else would.
  // NOLINTNEXTLINE(bugprone-exception-escape): see allocation_task::complete
  void operator()(buffer result) noexcept;
  /// The handler, for an operation that is to complete it instead.
  [[nodiscard]] detail::allocation_handler release() { return std::move(handler_); }

 private:
  detail::allocation_handler handler_;
  boost::asio::any_completion_executor executor_;
  bool completes_on_workers_;
  boost::asio::executor_work_guard<boost::asio::any_completion_executor> work_;
};

/// Zeroes what was found, on the workers alone.
class zeroing_take final : public zeroing {
 public:
  zeroing_take(std::shared_ptr<detail::cache_core> cache, const request& what,
               detail::prepared_take ready, detail::allocation_handler handler);
  void start();
  // NOLINTNEXTLINE(bugprone-exception-escape): as complete
  void finished() noexcept override;

 private:
  struct beginning;
  void begin();
  // NOLINTNEXTLINE(bugprone-exception-escape)
  void complete(failure why) noexcept;

  const std::shared_ptr<detail::cache_core> cache_;
  const request what_;
  buffer found_;
  detail::node_workers& workers_;
  take_completion done_;
  clock::time_point begun_;
  std::atomic<bool> is_cancelled_{false};
};

/// Starts the allocation of a miss; where there was too little room for it, and the cache could
/// make some, starts it once more.
void start_missed(std::shared_ptr<detail::cache_core> cache, const request& what,
                  const std::shared_ptr<detail::allocation_task>& first,
                  detail::node_workers& workers, detail::allocation_handler handler);

}  // namespace numapool::blocks
