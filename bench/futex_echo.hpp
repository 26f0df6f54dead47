// SPDX-License-Identifier: Apache-2.0
#pragma once

// The floor of any round trip between two parked threads: the kernel wakes one, which wakes the
// other. Threads: one caller at a time.

#include <atomic>
#include <cstdint>
#include <thread>

namespace numapool::bench {

class futex_echo {
 public:
  futex_echo();
  ~futex_echo();
  futex_echo(const futex_echo&) = delete;
  futex_echo& operator=(const futex_echo&) = delete;

  void round_trip();
  /// What the waker alone pays to wake the other, once.
  [[nodiscard]] double wake_seconds();

 private:
  void echo();

  std::atomic<std::uint32_t> asked_{0};
  std::atomic<std::uint32_t> answered_{0};
  std::atomic<bool> is_closed_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace numapool::bench
