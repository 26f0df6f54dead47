// SPDX-License-Identifier: Apache-2.0
#include "cli/near_match.hpp"

#include <algorithm>
#include <cstddef>

namespace numapool::cli {

namespace {

// The distance that counts a swap of two neighbours as one step (optimal string alignment), row by
// row.
std::size_t steps_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(to.size() + 1);
  for (std::size_t column = 0; column <= to.size(); ++column) {
    last[column] = column;
  }
  for (std::size_t row = 1; row <= from.size(); ++row) {
    std::vector<std::size_t> now(to.size() + 1, row);
    for (std::size_t column = 1; column <= to.size(); ++column) {
      const bool same = from[row - 1] == to[column - 1];
      now[column] =
          std::min({last[column] + 1, now[column - 1] + 1, last[column - 1] + (same ? 0U : 1U)});
      if (row > 1 && column > 1 && from[row - 1] == to[column - 2] &&
          from[row - 2] == to[column - 1]) {
        now[column] = std::min(now[column], before_last[column - 2] + 1);
      }
    }
    before_last = std::move(last);
    last = std::move(now);
  }
  return last.back();
}

}  // namespace

std::string near_match(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t fewest = std::min<std::size_t>(3, (word.size() + 1) / 2);
  for (const std::string& candidate : known) {
    const std::size_t steps = steps_between(word, candidate);
    if (steps < fewest) {
      fewest = steps;
      best = candidate;
    }
  }
  return best;
}

}  // namespace numapool::cli
