// SPDX-License-Identifier: Apache-2.0
#include "goal_pool.hpp"

#include <utility>
#include <vector>

#include "machine_watch.hpp"
#include "spread.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

// Of what takes less than a few milliseconds one sample says little.
template <typename Measure>
double median_of_samples(std::size_t size_bytes, Measure measure) {
  const int count = size_bytes < 16 * mib ? 25 : 1;
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    seconds.push_back(measure());
  }
  return spread_of(std::move(seconds)).median;
}

}  // namespace

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

goal_pool::goal_pool()
    : node_(first_usable_node(pool_.topology())),
      original_(node_),
      filler_(pool_.allocate(ask(mib, page_policy::base, populate_mode::quiet, pin_policy::none))
                  .workers()) {}

request goal_pool::ask(std::size_t size_bytes, page_policy pages, populate_mode populate,
                       pin_policy pin) const {
  request what;
  what.size_bytes = size_bytes;
  what.node = node_;
  what.pages = pages;
  what.populate = populate;
  what.pin = pin;
  return what;
}

void goal_pool::prepare(std::size_t size_bytes) {
  wait_for_releases();
  filler_.make_warm(size_bytes);
}

double goal_pool::pool_seconds(const request& what) {
  return median_of_samples(what.size_bytes, [&] {
    prepare(what.size_bytes);
    return seconds_to([&] { return pool_.allocate(what); });
  });
}

double goal_pool::original_seconds(std::size_t size_bytes) {
  return median_of_samples(size_bytes, [&] {
    prepare(size_bytes);
    return seconds_to([&] { return original_.allocate(size_bytes); });
  });
}

double goal_pool::raw_seconds(std::size_t size_bytes, const raw_options& how) {
  return median_of_samples(size_bytes, [&] {
    prepare(size_bytes);
    return seconds_to([&] { return filler_.fill(size_bytes, how); });
  });
}

}  // namespace numapool::bench
