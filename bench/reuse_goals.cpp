// SPDX-License-Identifier: Apache-2.0

// A buffer used again, beside the original's way, which has only new ones.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <numapool/buffer_cache.hpp>

#include "cli/quantity.hpp"
#include "goal_groups.hpp"
#include "goal_pool.hpp"
#include "spread.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

class reuse_goals final : public goal_group {
 public:
  reuse_goals(std::shared_ptr<goal_pool> measured, std::size_t size_bytes)
      : measured_(std::move(measured)), size_bytes_(size_bytes) {}

  std::vector<goal> goals() override {
    std::vector<goal> all;
    for (const std::size_t size : {size_bytes_, 64 * mib, 2 * mib}) {
      add(all, size, "zeroed", contents::zeroed, 18);
    }
    add(all, size_bytes_, "as it is", contents::as_is, 100'000);
    return all;
  }

 private:
  void add(std::vector<goal>& all, std::size_t size_bytes, const std::string& how, contents wanted,
           double times) {
    all.push_back({cli::format_bytes(size_bytes) + ", used again, " + how + ": times the original",
                   bound::at_least, times, [this, size_bytes, wanted] {
                     return measured_->original_seconds(size_bytes) /
                            seconds_to_take(size_bytes, wanted);
                   }});
  }

  // Each time all of it has been written since, as its user would.
  double seconds_to_take(std::size_t size_bytes, contents wanted) {
    const request what =
        measured_->ask(size_bytes, page_policy::thp, populate_mode::quiet, pin_policy::none);
    wait_for_releases();
    buffer_cache cache(measured_->pool());
    cache.give(measured_->pool().allocate(what));
    std::vector<double> seconds;
    for (int i = 0; i < (size_bytes < 128 * mib ? 9 : 3); ++i) {
      const auto begun = std::chrono::steady_clock::now();
      buffer taken = cache.take(what, wanted);
      seconds.push_back(seconds_since(begun));
      std::fill_n(taken.data(), taken.mapped_bytes(), std::byte{1});
      cache.give(std::move(taken));
    }
    return spread_of(std::move(seconds)).median;
  }

  const std::shared_ptr<goal_pool> measured_;
  const std::size_t size_bytes_;
};

}  // namespace

std::unique_ptr<goal_group> make_reuse_goals(const std::shared_ptr<goal_pool>& measured,
                                             std::size_t size_bytes) {
  return std::make_unique<reuse_goals>(measured, size_bytes);
}

}  // namespace numapool::bench
