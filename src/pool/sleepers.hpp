// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where workers sleep until there is something to do.

#include <atomic>

#include "base/futex.hpp"

namespace numapool::detail {

/// A waker takes a sleeper off the count and leaves it a token, so that each wake is one system
/// call for one thread, however often it is called before that thread runs.
/// Threads: every member may be called by any thread.
class sleepers {
 public:
  /// Sleeps until it is woken, unless `ready()`, which is asked after this thread counts as asleep:
  /// whoever makes it true and calls wake() afterwards is not missed. `ready` must read what it
  /// reads sequentially consistent, and its maker must write so.
  template <typename Ready>
  void sleep_unless(Ready ready) noexcept {
    asleep_.fetch_add(1);
    if (ready() && claim()) {
      return;
    }
    take_token();  // it is on its way, or comes with a wake
  }
  void wake() noexcept {
    if (claim()) {
      tokens_.fetch_add(1);
      base::futex_wake(tokens_, 1);
    }
  }
  void wake_all() noexcept {
    int claimed = 0;
    while (claim()) {
      ++claimed;
    }
    tokens_.fetch_add(claimed);
    base::futex_wake(tokens_, claimed);
  }

 private:
  bool claim() noexcept {
    int count = asleep_.load();
    while (count > 0) {
      if (asleep_.compare_exchange_weak(count, count - 1)) {
        return true;
      }
    }
    return false;
  }
  void take_token() noexcept {
    for (int count = tokens_.load();;) {
      while (count > 0) {
        if (tokens_.compare_exchange_weak(count, count - 1)) {
          return;
        }
      }
      base::futex_wait(tokens_, 0);
      count = tokens_.load();
    }
  }

  std::atomic<int> asleep_{0};  // not yet claimed by a waker
  std::atomic<int> tokens_{0};
};

}  // namespace numapool::detail
