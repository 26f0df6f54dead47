// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long a thread of this process is held up that only wants some memory: what filling and
// freeing large ranges does to everybody else. Threads: one caller at a time.

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace numapool::bench {

class stall_watch {
 public:
  stall_watch();
  ~stall_watch();
  stall_watch(const stall_watch&) = delete;
  stall_watch& operator=(const stall_watch&) = delete;

  /// Seconds of the longest mmap, touch and munmap of the watching thread while `work` ran.
  [[nodiscard]] double longest_during(const std::function<void()>& work);

 private:
  void watch();
  void await_probe() const;

  std::atomic<bool> is_watching_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<std::uint64_t> probes_{0};  // done
  std::atomic<double> longest_{0};
  std::thread thread_;  // last: it uses the others
};

}  // namespace numapool::bench
