// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory made resident by the pool and by the original's way, turn by turn. Threads: one caller at
// a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace numapool::bench {

struct ratio_options {
  std::size_t size_bytes = std::size_t{1} << 30U;
  unsigned rounds = 7;
  std::uint64_t seed = 0;          // of the order within a round
  unsigned patience_ms = 500;      // longest wait for a calm machine before a sample
  unsigned retries_a_sample = 2;   // of one that was disturbed; the last stands as it is
  unsigned calm_seconds = 40;      // after so long it neither waits nor takes samples again, and comes to an end
};

/// One way of making the same bytes resident; the first of a list is the original's.
struct measured_way {
  std::string name;
  double needed = 0;                // times the original; 0: nothing is asked of it
  std::vector<double> seconds;      // by round; empty: it could not be measured
  std::vector<double> foreign_shares;  // by round: of the CPUs' time, used by others
  std::string remark;               // why not measured, or what it did not obtain
};

struct ratio_result {
  ratio_options options;
  unsigned workers = 0;             // of the pool
  std::vector<measured_way> ways;
  unsigned disturbed = 0;           // samples that stood though they were disturbed
  unsigned retried = 0;
  bool watches_page_reporting = false;
  std::uint64_t reported_kib = 0;   // given back to the host during samples that stood
};

/// Throws numapool::error or std::system_error when the machine does not let it measure at all.
[[nodiscard]] ratio_result measure_ratio(const ratio_options& options);

/// Median and extremes of one way.
struct spread {
  double low = 0;
  double median = 0;
  double high = 0;
};
[[nodiscard]] spread spread_of(std::vector<double> values);
/// GB (10^9 bytes) a second.
[[nodiscard]] spread rate_of(const measured_way& way, std::size_t size_bytes);
/// How many times the original's rate, round by round: what drifts between rounds drops out.
[[nodiscard]] spread ratio_of(const measured_way& way, const measured_way& original);
/// Asked something and did not reach it, or was not measured.
[[nodiscard]] bool is_short(const measured_way& way, const measured_way& original);

}  // namespace numapool::bench
