// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the memory of large buffers is given back, off the path of whoever lets go of them: to free
// 1 GiB of base pages takes 33 ms, and to unregister it more.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "memory/buffer_state.hpp"
#include "platform/platform.hpp"

namespace numapool::memory {

/// One thread for the whole process, started by the first buffer that needs it and joined when the
/// process exits or the library is unloaded, after it has given everything back.
///
/// Threads: safe to share; never destroyed.
class release_queue {
 public:
  [[nodiscard]] static release_queue& of_process() noexcept;

  /// Takes the buffer from the caller, who pays for one futex wake at most. False, and it is still
  /// the caller's: no thread can be had, the process is exiting, or this is a forked child.
  [[nodiscard]] bool take(std::unique_ptr<buffer_state>& released) noexcept;
  /// Returns when all that was taken before is back with the kernel; false: there was nothing, or
  /// this is a forked child. Whoever finds too little of something waits and looks again.
  bool wait() noexcept;
  /// Taken and not yet back.
  [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return pending_bytes_; }

 private:
  release_queue() = default;
  [[nodiscard]] bool start(platform::threads& threads) NUMAPOOL_REQUIRES(mutex_);
  void run() noexcept;
  void end() noexcept;
  [[nodiscard]] bool is_here() const noexcept;

  platform::threads* threads_ = nullptr;  // set once, with the thread
  std::atomic<std::uint64_t> process_generation_{0};
  std::atomic<bool> is_started_{false};
  std::atomic<std::uint64_t> pending_bytes_{0};

  base::mutex mutex_;
  std::condition_variable changed_;   // something to do, or to end
  std::condition_variable released_;  // something was given back
  std::unique_ptr<platform::thread> thread_ NUMAPOOL_GUARDED_BY(mutex_);
  std::unique_ptr<buffer_state> first_ NUMAPOOL_GUARDED_BY(mutex_);  // linked by next_released
  buffer_state* last_ NUMAPOOL_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t taken_ NUMAPOOL_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ NUMAPOOL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ NUMAPOOL_GUARDED_BY(mutex_) = false;
  bool has_exit_handler_ NUMAPOOL_GUARDED_BY(mutex_) = false;
};

/// Gives the memory back: large buffers of machines that do so on the queue's thread, all others
/// before it returns.
void release(std::unique_ptr<buffer_state> released) noexcept;

}  // namespace numapool::memory
