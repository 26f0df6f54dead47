// SPDX-License-Identifier: Apache-2.0
#pragma once

// A performance goal: a ratio between two things measured side by side, and what it should be.
// Threads: one caller at a time.

#include <functional>
#include <string>
#include <vector>

namespace numapool::bench {

enum class bound { at_least, at_most };

struct goal {
  std::string name;  // "1 GiB, huge pages, locked: times the original"
  bound kind = bound::at_least;
  double value = 0;
  /// Measures both sides once and returns the ratio. Throws where it cannot be measured here; an
  /// empty function: what it would measure is not built yet, and `remark` says so.
  std::function<double()> sample;

  std::vector<double> ratios = {};  // by round
  std::string remark = {};
};

/// Samples every goal `rounds` times, in turn. A goal that cannot be measured says why in its
/// remark and is left out from then on. `on_round` hears how many rounds are done.
void measure_goals(std::vector<goal>& goals, unsigned rounds,
                   const std::function<void(unsigned done)>& on_round);

/// By the median of its rounds; false for one without any.
[[nodiscard]] bool is_met(const goal& which);

/// What measures them, kept alive as long as the goals are.
class goal_group {
 public:
  virtual ~goal_group() = default;
  [[nodiscard]] virtual std::vector<goal> goals() = 0;
};

}  // namespace numapool::bench
