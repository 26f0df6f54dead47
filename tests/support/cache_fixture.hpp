// SPDX-License-Identifier: Apache-2.0
#pragma once

// What several tests of the cache need: a cache on a simulated machine of two nodes, with a clock
// that the test sets.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <numapool/buffer_cache.hpp>

#include "blocks/cache_core.hpp"
#include "support/pool_fixture.hpp"

namespace numapool::test {

inline std::atomic<std::chrono::nanoseconds> cache_time{std::chrono::hours(1)};

inline std::chrono::steady_clock::time_point cache_now() noexcept {
  return std::chrono::steady_clock::time_point(cache_time.load());
}
inline void pass_time(std::chrono::nanoseconds time) {
  cache_time = cache_time.load() + time;
}

inline bool is_all(const buffer& held, std::byte wanted) {
  return *held.data() == wanted &&
         std::memcmp(held.data(), held.data() + 1, held.mapped_bytes() - 1) == 0;
}
inline void fill(const buffer& held, std::byte with) {
  std::memset(held.data(), std::to_integer<int>(with), held.mapped_bytes());
}

/// Machine, pool and cache, that end in the right order.
struct cached_pool {
  explicit cached_pool(const buffer_cache_options& options = {},
                       const worker_pool_options& workers = {},
                       const machine_plan& plan = machine_plan::two_nodes())
      : machine(plan),
        pool(machine.make_pool(workers)),
        cache(cache_access::make(*pool, options, cache_now)) {}

  /// Takes, writes all of it and gives it back; where it was.
  const std::byte* use_once(const request& what, std::byte with = std::byte{0x5A}) {
    buffer held = cache->take(what);
    fill(held, with);
    const std::byte* const where = held.data();
    cache->give(std::move(held));
    return where;
  }

  fake_machine machine;
  std::unique_ptr<worker_pool> pool;
  std::unique_ptr<buffer_cache> cache;
};

}  // namespace numapool::test
