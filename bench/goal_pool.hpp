// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the goals about memory are measured with: the pool, the original's way, and the bare loops,
// all on one node. Threads: one caller at a time.

#include <chrono>
#include <cstddef>

#include <numapool/worker_pool.hpp>

#include "original_way.hpp"
#include "raw_fill.hpp"

namespace numapool::bench {

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point begun);

/// From the call to the memory in the caller's hands; giving it back is not in it.
template <typename Make>
[[nodiscard]] double seconds_to(Make make) {
  const auto begun = std::chrono::steady_clock::now();
  const auto made = make();
  return seconds_since(begun);
}

class goal_pool {
 public:
  goal_pool();

  [[nodiscard]] request ask(std::size_t size_bytes, page_policy pages, populate_mode populate,
                            pin_policy pin) const;
  /// What was let go of before is back with the kernel, and as much as is asked for next is in its
  /// hands and not the host's: see raw_filler::make_warm().
  void prepare(std::size_t size_bytes);

  // Each prepares, then takes the time; of small sizes the median of several.
  [[nodiscard]] double pool_seconds(const request& what);
  [[nodiscard]] double original_seconds(std::size_t size_bytes);
  [[nodiscard]] double raw_seconds(std::size_t size_bytes, const raw_options& how);

  [[nodiscard]] worker_pool& pool() noexcept { return pool_; }
  [[nodiscard]] node_id node() const noexcept { return node_; }
  [[nodiscard]] raw_filler& filler() noexcept { return filler_; }

 private:
  worker_pool pool_;
  node_id node_;
  original_way original_;
  raw_filler filler_;
};

}  // namespace numapool::bench
