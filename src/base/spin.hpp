// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/pause.hpp"

namespace numapool::base {

/// Looks again and again for `budget`; whether `is_there()` came true. Reads the clock now and then
/// alone: it costs more than a look.
template <typename Condition>
bool spin_until(Condition is_there, std::chrono::nanoseconds budget) {
  using clock = std::chrono::steady_clock;
  constexpr int looks_a_reading = 16;
  const clock::time_point end = clock::now() + budget;
  do {
    for (int looks = 0; looks < looks_a_reading; ++looks) {
      if (is_there()) {
        return true;
      }
      pause();
    }
  } while (clock::now() < end);
  return is_there();
}

}  // namespace numapool::base
