// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions queued for one node's workers, in order.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <numapool/detail/node_executor.hpp>

#include "base/mutex.hpp"

namespace numapool::detail {

/// Jobs in a row; owns none.
class job_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push(job& added) noexcept;
  job& pop() noexcept;
  /// Moves all of `other` behind what is here.
  void append(job_list& other) noexcept;

 private:
  job* first_ = nullptr;
  job* last_ = nullptr;
};

/// First in, first out. Two locks, so that who queues and who runs meet once for all that has come
/// meanwhile and not at each job: workers take the whole inbox when their outbox is empty.
/// Threads: every member may be called by any thread.
class job_queue {
 public:
  job_queue() = default;
  /// Requires: empty (checked, aborts).
  ~job_queue();
  job_queue(const job_queue&) = delete;
  job_queue& operator=(const job_queue&) = delete;

  /// An unused job for push(); throws std::bad_alloc. A thread that queues gets back what the
  /// workers have done with, so that it allocates nothing.
  [[nodiscard]] job& acquire();
  /// Gives back one that was not pushed.
  static void abandon(job& unused) noexcept;
  /// False, and nothing done, after close(). `always`: then too.
  [[nodiscard]] bool push(job& added, bool always) noexcept;
  /// Push takes no more; `left` has what was queued.
  void close(job_list& left) noexcept;

  /// The next job, or null. What the caller took before counts as ended now; `used`, if it is not
  /// null, was acquire()d and is there for others again.
  [[nodiscard]] job* pop_first() noexcept { return pop(nullptr, false); }
  [[nodiscard]] job* pop_next(job* used) noexcept { return pop(used, true); }
  /// What pop_next() says of the last one, alone.
  void end_one(job* used) noexcept;

  /// May be out of date by the time it returns, but never misses what was pushed before the call.
  [[nodiscard]] bool looks_empty() const noexcept {
    // In this order: jobs go from the inbox to the outbox, which says so first.
    return waiting_in_.load() == 0 && waiting_out_.load() == 0;
  }
  [[nodiscard]] std::size_t waiting() const noexcept {
    return waiting_in_.load() + waiting_out_.load();
  }
  /// Everything that was ever pushed has ended.
  [[nodiscard]] bool is_idle() const;

 private:
  [[nodiscard]] job* pop(job* used, bool one_ended) noexcept;
  void take_inbox() noexcept NUMAPOOL_REQUIRES(outbox_mutex_);
  /// Null, or what is too much to keep: to be deleted without the lock.
  [[nodiscard]] job* keep(job* used) noexcept NUMAPOOL_REQUIRES(outbox_mutex_);

  // Whoever queues writes the first group, workers the second: a cache line each and no more.
  alignas(64) mutable base::mutex inbox_mutex_;
  job_list inbox_ NUMAPOOL_GUARDED_BY(inbox_mutex_);
  job_list spares_ NUMAPOOL_GUARDED_BY(inbox_mutex_);
  std::uint64_t pushed_ NUMAPOOL_GUARDED_BY(inbox_mutex_) = 0;
  bool is_closed_ NUMAPOOL_GUARDED_BY(inbox_mutex_) = false;
  std::atomic<std::size_t> waiting_in_{0};  // written under the mutex

  alignas(64) mutable base::mutex outbox_mutex_;  // taken before inbox_mutex_
  job_list outbox_ NUMAPOOL_GUARDED_BY(outbox_mutex_);
  job_list used_ NUMAPOOL_GUARDED_BY(outbox_mutex_);
  std::size_t used_count_ NUMAPOOL_GUARDED_BY(outbox_mutex_) = 0;
  std::uint64_t ended_ NUMAPOOL_GUARDED_BY(outbox_mutex_) = 0;
  std::atomic<std::size_t> waiting_out_{0};  // written under the mutex
};

}  // namespace numapool::detail
