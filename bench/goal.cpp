// SPDX-License-Identifier: Apache-2.0
#include "goal.hpp"

#include <exception>

#include "spread.hpp"

namespace numapool::bench {

void measure_goals(std::vector<goal>& goals, unsigned rounds,
                   const std::function<void(unsigned done)>& on_round) {
  for (unsigned round = 0; round < rounds; ++round) {
    for (goal& one : goals) {
      if (!one.sample) {
        continue;
      }
      try {
        one.ratios.push_back(one.sample());
      } catch (const std::exception& failed) {
        one.remark = failed.what();
        one.ratios.clear();
        one.sample = nullptr;
      }
    }
    on_round(round + 1);
  }
}

bool is_met(const goal& which) {
  if (which.ratios.empty()) {
    return false;
  }
  const double median = spread_of(which.ratios).median;
  return which.kind == bound::at_least ? median >= which.value : median <= which.value;
}

}  // namespace numapool::bench
