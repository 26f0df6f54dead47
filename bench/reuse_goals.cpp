// SPDX-License-Identifier: Apache-2.0

// Buffers that are used again, beside the original's way, which makes each anew.

#include <cstddef>
#include <cstring>
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

buffer_cache_options without_pressure() {
  buffer_cache_options options;
  options.pressure_limit_percent = 0;  // nothing must go while it is measured
  return options;
}

class reuse_goals final : public goal_group {
 public:
  reuse_goals(std::shared_ptr<goal_pool> measured, std::size_t size_bytes)
      : measured_(std::move(measured)), size_bytes_(size_bytes) {}

  std::vector<goal> goals() override {
    std::vector<goal> all;
    for (const std::size_t size : {size_bytes_, 64 * mib, 2 * mib}) {
      add_zeroed(all, size, "long unused", &reuse_goals::write_and_forget);
      add_zeroed(all, size, "just written", &reuse_goals::write);
    }
    all.push_back({cli::format_bytes(size_bytes_) + ", reuse, as it is: times the original",
                   bound::at_least, 100'000, [this] {
                     return measured_->original_seconds(size_bytes_) /
                            seconds_to_take(size_bytes_, contents::as_is, &reuse_goals::write);
                   }});
    return all;
  }

 private:
  using use = void (reuse_goals::*)(const buffer& held);

  // By its owner, with this CPU: what was written last is in the caches when it is given back.
  void write(const buffer& held) { std::memset(held.data(), 0xA5, held.size_bytes()); }
  // Then so much else that none of it is.
  void write_and_forget(const buffer& held) {
    write(held);
    other_.resize(512 * mib);
    std::memset(other_.data(), ++round_, other_.size());
  }

  void add_zeroed(std::vector<goal>& all, std::size_t size_bytes, const std::string& what,
                  use used) {
    all.push_back(
        {cli::format_bytes(size_bytes) + ", reuse, zeroed, " + what + ": times the original",
         bound::at_least, 18, [this, size_bytes, used] {
           return measured_->original_seconds(size_bytes) /
                  seconds_to_take(size_bytes, contents::zeroed, used);
         }});
  }

  // The median of several: taken alone one is as long as the kernel or the host wants it to be.
  double seconds_to_take(std::size_t size_bytes, contents wanted, use used) {
    const request what =
        measured_->ask(size_bytes, page_policy::thp, populate_mode::quiet, pin_policy::mlock);
    std::vector<double> seconds;
    buffer held = cache_.take(what);
    for (int i = 0; i < 9; ++i) {
      (this->*used)(held);
      cache_.give(std::move(held));
      const auto begun = std::chrono::steady_clock::now();
      held = cache_.take(what, wanted);
      seconds.push_back(seconds_since(begun));
    }
    return spread_of(std::move(seconds)).median;
  }

  const std::shared_ptr<goal_pool> measured_;
  const std::size_t size_bytes_;
  buffer_cache cache_{measured_->pool(), without_pressure()};
  std::vector<std::byte> other_;
  int round_ = 0;
};

}  // namespace

std::unique_ptr<goal_group> make_reuse_goals(const std::shared_ptr<goal_pool>& measured,
                                             std::size_t size_bytes) {
  return std::make_unique<reuse_goals>(measured, size_bytes);
}

}  // namespace numapool::bench
