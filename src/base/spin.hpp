// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "base/pause.hpp"

namespace numapool::base {

/// Looks again and again for `budget`; whether `is_there()` came true. Reads the clock now and then
/// alone: it costs more than a look.
///
/// Offers its CPU each time: the scheduler may have put whoever is waited for onto that very one,
/// where it would wait for the end of the spin (24 to 75 us a round trip, seen on two CPUs of which
/// one was idle; 2 us so). Where nobody else wants the CPU an offer costs some tenths of a
/// microsecond, after a spin that has already lasted longer than a hot round trip.
template <typename Condition>
bool spin_until(Condition is_there, std::chrono::nanoseconds budget) {
  using clock = std::chrono::steady_clock;
  constexpr int looks_a_reading = 64;
  const clock::time_point end = clock::now() + budget;
  do {
    for (int looks = 0; looks < looks_a_reading; ++looks) {
      if (is_there()) {
        return true;
      }
      pause();
    }
    std::this_thread::yield();
  } while (clock::now() < end);
  return is_there();
}

}  // namespace numapool::base
