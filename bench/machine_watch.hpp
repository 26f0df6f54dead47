// SPDX-License-Identifier: Apache-2.0
#pragma once

// What machine a benchmark runs on, and what else happened there while a sample was taken. Threads:
// safe.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace numapool::bench {

/// "cpu", "kernel", "huge pages", "nodes", "memory", "load", each with a text; "unknown" where the
/// machine does not say.
using machine_facts = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] machine_facts describe_machine();

/// What the guest has given back to its host since it started; empty where nothing is given back.
[[nodiscard]] std::optional<std::uint64_t> reported_kib();

/// From its making on: what others did. The kernel counts CPU time in hundredths of a second.
class machine_watch {
 public:
  machine_watch();
  struct finding {
    double seconds = 0;
    double foreign_share = 0;        // of all CPUs' time, by other programs or kept by the host
    std::uint64_t reported_kib = 0;  // given back to the host meanwhile
  };
  [[nodiscard]] finding look() const;

 private:
  std::chrono::steady_clock::time_point begun_;
  double busy_seconds_;  // all CPUs
  double own_seconds_;   // of this process
  std::optional<std::uint64_t> reported_kib_;
};

/// Returns when others have left the CPUs alone for a twentieth of a second, at the latest after
/// `patience`.
void wait_for_calm(std::chrono::milliseconds patience);

}  // namespace numapool::bench
