// SPDX-License-Identifier: Apache-2.0
#pragma once

// What several samples of one thing say. Threads: safe.

#include <vector>

namespace numapool::bench {

/// All zero when there is no sample.
struct spread {
  double low = 0;
  double median = 0;
  double high = 0;
};
[[nodiscard]] spread spread_of(std::vector<double> values);

}  // namespace numapool::bench
