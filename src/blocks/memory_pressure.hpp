// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "platform/platform.hpp"

namespace numapool::blocks {

/// How scarce memory is, as the kernel has it (Documentation/accounting/psi.rst): of this process's
/// cgroup where version 2 says so, else of the machine. Threads: one at a time.
class memory_pressure {
 public:
  using clock = std::chrono::steady_clock;

  /// `files` is used for as long as this lives.
  explicit memory_pressure(const platform::files& files);
  /// The percentage of the last ten seconds in which some task waited for memory; 0 where nobody
  /// says. Looks once a second at most, whatever `now` is asked for.
  [[nodiscard]] double some_percent(clock::time_point now);

 private:
  const platform::files& files_;
  std::string path_;
  clock::time_point next_look_ = clock::time_point::min();
  double last_ = 0;
};

/// "some avg10=1.50 avg60=..."; 0 where there is no such line.
[[nodiscard]] double parse_some_avg10(std::string_view text);

}  // namespace numapool::blocks
