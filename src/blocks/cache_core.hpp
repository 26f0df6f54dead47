// SPDX-License-Identifier: Apache-2.0
#pragma once

// What buffer_cache is made of.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <numapool/buffer_cache.hpp>

#include "base/mutex.hpp"
#include "blocks/kept_buffers.hpp"
#include "pool/pool_core.hpp"

namespace numapool::detail {

class cache_core : public std::enable_shared_from_this<cache_core> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using time_source = time_point (*)() noexcept;

  cache_core(pool_core& pool, const buffer_cache_options& options, time_source now);
  /// In a forked child leaves what it keeps as it is: another thread may have been in the midst of
  /// it.
  ~cache_core();
  cache_core(const cache_core&) = delete;
  cache_core& operator=(const cache_core&) = delete;

  [[nodiscard]] pool_core& pool() noexcept { return pool_; }

  /// Empty with why() on an error.
  [[nodiscard]] buffer take(const request& what, contents wanted);
  void give(buffer&& done_with) noexcept;
  /// A kept buffer that answers `what`; empty: none does. Counts the hit or miss.
  [[nodiscard]] buffer take_kept(const request& what) noexcept;
  /// Keeps again what was taken and could not be delivered.
  void put_back(buffer taken) noexcept;
  /// Notes in the handle how long it was zeroed.
  static void note_zeroing(buffer& found, std::chrono::nanoseconds taken) noexcept;
  [[nodiscard]] static failure zeroing_timed_out(const request& what);
  /// Age and pressure, when nothing else gave cause to look.
  void look() noexcept;
  /// Whether an allocation that failed so may find more room now: lets go what was in its way.
  [[nodiscard]] bool make_room(const failure& why) noexcept;

  std::size_t trim(std::size_t keep_bytes) noexcept;
  std::size_t trim_older_than(std::chrono::nanoseconds age) noexcept;
  [[nodiscard]] buffer_cache_stats stats() const noexcept;

 private:
  [[nodiscard]] bool is_forked_child() const noexcept;
  [[nodiscard]] buffer zero(buffer found, const request& what);
  [[nodiscard]] bool has_moved(const memory::buffer_state& state) const;
  [[nodiscard]] bool is_well_placed(buffer& given);
  [[nodiscard]] std::unique_ptr<blocks::kept_buffer> examine(buffer& given);
  void keep(std::unique_ptr<blocks::kept_buffer> added);
  void count_refused(std::size_t mapped_bytes) noexcept;
  void let_go_down_to(std::size_t keep_bytes, blocks::kept_chain& ending) noexcept
      NUMAPOOL_REQUIRES(mutex_);
  void let_go_older_than(time_point since, blocks::kept_chain& ending) noexcept
      NUMAPOOL_REQUIRES(mutex_);
  void look_at_age(time_point now) noexcept;
  void look_at_pressure(time_point now) noexcept;

  // Constant after construction.
  pool_core& pool_;
  platform::platform& machine_;  // lives as long as the process; the pool need not
  const std::uint64_t process_generation_;
  const std::size_t base_page_bytes_;
  const buffer_cache_options options_;
  const time_source now_;

  std::atomic<time_point::rep> next_look_{0};  // at the pressure; of now_'s clock

  mutable base::mutex mutex_;  // a leaf: nothing is allocated, released or asked under it but the
                               // memory of kept_buffers
  std::unique_ptr<blocks::kept_buffers> kept_ NUMAPOOL_GUARDED_BY(mutex_);
  buffer_cache_stats counts_ NUMAPOOL_GUARDED_BY(mutex_);  // all but what is kept now
};

}  // namespace numapool::detail

namespace numapool {

/// For tests: a cache whose clock they set.
struct cache_access {
  [[nodiscard]] static std::unique_ptr<buffer_cache> make(worker_pool& pool,
                                                          const buffer_cache_options& options,
                                                          detail::cache_core::time_source now);
};

}  // namespace numapool
