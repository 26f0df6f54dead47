// SPDX-License-Identifier: Apache-2.0
#include "spread.hpp"

#include <algorithm>
#include <cstddef>

namespace numapool::bench {

spread spread_of(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const bool is_odd = values.size() % 2 == 1;
  const double median = is_odd ? values[half] : (values[half - 1] + values[half]) / 2;
  return {values.front(), median, values.back()};
}

}  // namespace numapool::bench
