// SPDX-License-Identifier: Apache-2.0
#pragma once

// std::mutex and its lock with Clang's thread-safety annotations (the `clang` preset checks them;
// GCC ignores them).

#include <condition_variable>
#include <mutex>

#include "base/pause.hpp"

#if defined(__clang__)
#define NUMAPOOL_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define NUMAPOOL_THREAD_ANNOTATION(x)
#endif

#define NUMAPOOL_GUARDED_BY(x) NUMAPOOL_THREAD_ANNOTATION(guarded_by(x))
#define NUMAPOOL_REQUIRES(...) NUMAPOOL_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define NUMAPOOL_EXCLUDES(...) NUMAPOOL_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace numapool::base {

/// What it guards is left within some tens of nanoseconds: before a thread sleeps for it, which
/// costs two system calls and a switch, it looks a few times more.
class NUMAPOOL_THREAD_ANNOTATION(capability("mutex")) mutex {
 public:
  void lock() NUMAPOOL_THREAD_ANNOTATION(acquire_capability()) { lock(mutex_); }
  void unlock() NUMAPOOL_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class lock_guard;

  static void lock(std::mutex& wanted) {
    for (int looks = 0; looks < 64; ++looks) {
      if (wanted.try_lock()) {
        return;
      }
      pause();
    }
    wanted.lock();
  }

  std::mutex mutex_;
};

/// Holds the mutex for its scope; wait() gives it up meanwhile.
class NUMAPOOL_THREAD_ANNOTATION(scoped_lockable) lock_guard {
 public:
  explicit lock_guard(mutex& held) NUMAPOOL_THREAD_ANNOTATION(acquire_capability(held))
      : lock_((mutex::lock(held.mutex_), held.mutex_), std::adopt_lock) {}
  ~lock_guard() NUMAPOOL_THREAD_ANNOTATION(release_capability()) {}
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

  void unlock() NUMAPOOL_THREAD_ANNOTATION(release_capability()) { lock_.unlock(); }
  void lock() NUMAPOOL_THREAD_ANNOTATION(acquire_capability()) { lock_.lock(); }
  void wait(std::condition_variable& changed) { changed.wait(lock_); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace numapool::base
