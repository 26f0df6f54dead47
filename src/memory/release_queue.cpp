// SPDX-License-Identifier: Apache-2.0
#include "memory/release_queue.hpp"

#include <cstdlib>
#include <exception>
#include <utility>

namespace numapool::memory {
namespace {

// Below it, giving back takes about as long as waking a thread.
constexpr std::size_t queued_bytes_min = 1ULL << 20U;

}  // namespace

release_queue& release_queue::of_process() noexcept {
  static release_queue& process_wide = *new release_queue;  // buffers may end in static destructors
  return process_wide;
}

// A forked child has neither the thread nor any right to the lock, which it may have inherited
// locked.
bool release_queue::is_here() const noexcept {
  return is_started_ && threads_->process_generation() == process_generation_;
}

bool release_queue::take(std::unique_ptr<buffer_state>& released) noexcept {
  if (is_started_ && !is_here()) {
    return false;
  }
  base::lock_guard lock(mutex_);
  if (is_ending_ || (!is_started_ && !start(released->machine->threads))) {
    return false;
  }
  pending_bytes_ += released->mapped.size_bytes;
  ++taken_;
  buffer_state* const added = released.get();
  (last_ == nullptr ? first_ : last_->next_released) = std::move(released);
  last_ = added;
  lock.unlock();
  changed_.notify_one();
  return true;
}

bool release_queue::start(platform::threads& threads) {
  threads_ = &threads;
  if (!has_exit_handler_) {
    has_exit_handler_ = std::atexit([] { of_process().end(); }) == 0;
  }
  try {
    if (!has_exit_handler_ || threads.start(
                                  "numapool-free", {}, [this] { run(); }, thread_)) {
      return false;
    }
  } catch (const std::exception&) {  // bad_alloc; the caller gives back itself
    return false;
  }
  process_generation_ = threads.process_generation();
  is_started_ = true;
  return true;
}

void release_queue::run() noexcept {
  // Else the waker, for whose sake there is a thread at all, would be the one who waits. Where this
  // is denied, no more is lost than that.
  static_cast<void>(threads_->give_way_to_others());
  base::lock_guard lock(mutex_);
  for (;;) {
    while (first_ == nullptr && !is_ending_) {
      lock.wait(changed_);
    }
    if (first_ == nullptr) {
      return;
    }
    std::unique_ptr<buffer_state> next = std::move(first_);
    first_ = std::move(next->next_released);
    last_ = first_ == nullptr ? nullptr : last_;
    const std::size_t size_bytes = next->mapped.size_bytes;
    lock.unlock();
    next.reset();
    lock.lock();
    pending_bytes_ -= size_bytes;
    ++done_;
    released_.notify_all();
  }
}

bool release_queue::wait() noexcept {
  if (!is_here()) {
    return false;
  }
  base::lock_guard lock(mutex_);
  const std::uint64_t until = taken_;
  const bool was_pending = done_ < until;
  while (done_ < until) {
    lock.wait(released_);
  }
  return was_pending;
}

// Where the process exits, and where a library that holds this is unloaded. What comes later is
// given back by whoever lets go of it.
void release_queue::end() noexcept {
  if (!is_here()) {
    return;
  }
  std::unique_ptr<platform::thread> ending;
  {
    const base::lock_guard lock(mutex_);
    is_ending_ = true;
    ending = std::move(thread_);
  }
  changed_.notify_one();
  if (ending != nullptr) {
    ending->join();
  }
}

void release(std::unique_ptr<buffer_state> released) noexcept {
  const bool is_queued = released != nullptr && released->holds_memory() &&
                         released->machine->releases_in_background &&
                         released->mapped.size_bytes >= queued_bytes_min && released->is_ours() &&
                         release_queue::of_process().take(released);
  if (!is_queued) {
    released.reset();
  }
}

}  // namespace numapool::memory
