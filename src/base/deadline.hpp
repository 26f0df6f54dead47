// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace numapool::base {

/// When what starts now is late; time_point::max() for never, which a timeout of 0 means. What the
/// clock cannot express is no limit either: milliseconds::max() is a million times longer than the
/// clock's range.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_of(
    std::chrono::milliseconds timeout) noexcept {
  using clock = std::chrono::steady_clock;
  const clock::time_point never = clock::time_point::max();
  if (timeout.count() <= 0) {
    return never;
  }
  const clock::time_point now = clock::now();
  return timeout < std::chrono::floor<std::chrono::milliseconds>(never - now) ? now + timeout
                                                                              : never;
}

}  // namespace numapool::base
