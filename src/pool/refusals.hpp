// SPDX-License-Identifier: Apache-2.0
#pragma once

// Requests that no worker took: their completion is told on a thread of Asio's system executor, and
// waited for by drain() and shutdown() as a worker's would be.
// Threads: safe.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>

namespace numapool::detail {

class refusals {
 public:
  /// Runs `tell` on another thread, never inside this call. Without memory or a thread for that
  /// nobody is left to tell: the process ends.
  template <typename Function>
  // NOLINTNEXTLINE(bugprone-exception-escape): as said
  static void post(const std::shared_ptr<refusals>& whose, Function tell) noexcept {
    whose->under_way_.fetch_add(1, std::memory_order_relaxed);
    boost::asio::post(boost::asio::system_executor(), [whose, tell = std::move(tell)]() mutable {
      const scope here(*whose);
      std::move(tell)();
    });
  }
  /// Returns when none is under way. Not on a thread that runs one: it would wait for itself.
  void wait_none() const noexcept {
    for (std::uint32_t count = under_way_.load(std::memory_order_acquire); count != 0;
         count = under_way_.load(std::memory_order_acquire)) {
      under_way_.wait(count, std::memory_order_acquire);
    }
  }
  /// Whether the calling thread runs one of these.
  [[nodiscard]] bool runs_here() const noexcept { return running() == this; }

 private:
  // The function is over, and with it what it held, when the count falls.
  class scope {
   public:
    explicit scope(refusals& whose) noexcept
        : whose_(whose), outer_(std::exchange(running(), &whose)) {}
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      running() = outer_;
      whose_.under_way_.fetch_sub(1, std::memory_order_release);
      whose_.under_way_.notify_all();
    }

   private:
    refusals& whose_;
    const refusals* outer_;
  };

  /// Whose refusal the calling thread tells; null: none.
  static const refusals*& running() noexcept {
    thread_local const refusals* whose = nullptr;
    return whose;
  }

  std::atomic<std::uint32_t> under_way_{0};
};

}  // namespace numapool::detail
