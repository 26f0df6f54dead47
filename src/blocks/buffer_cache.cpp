// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <numapool/buffer_cache.hpp>
#include <numapool/worker_pool.hpp>

#include "base/failures.hpp"
#include "base/mutex.hpp"
#include "blocks/memory_pressure.hpp"
#include "blocks/zeroing.hpp"
#include "memory/buffer_state.hpp"

namespace numapool {
namespace {

using clock = std::chrono::steady_clock;

/// Whether `held` is what a request would get, but for where its pages are, which was looked at when
/// it was given.
bool suits(const buffer& held, const request& what, std::size_t base_page_bytes) {
  const request& made_for = memory::buffer_state::of(held).asked;
  const bool is_same_place = what.node.is_unknown()
                                 ? what.device && held.node_source() != node_source::unknown
                                 : what.node == made_for.node;
  const std::size_t unit =
      held.pages().kind == page_kind::hugetlb ? held.pages().page_size_bytes : base_page_bytes;
  return is_same_place && what.size_bytes > 0 && what.size_bytes <= held.mapped_bytes() &&
         held.mapped_bytes() - what.size_bytes < unit && what.device == made_for.device &&
         what.pages == made_for.pages && what.pin == made_for.pin && what.bind == made_for.bind &&
         what.chunk_bytes == made_for.chunk_bytes &&
         what.block_stride_bytes == made_for.block_stride_bytes;
}

/// Its pages are where they were asked for: those that were looked at now.
bool is_in_place(buffer& held) {
  const placement& found = held.remeasure(verify_policy::sample);
  if (found.by == witness::none || held.node_reached() != held.node_requested()) {
    return false;
  }
  return memory::buffer_state::of(held).asked.bind != bind_policy::strict ||
         found.share_on_node == 1;
}

}  // namespace

class buffer_cache::store {
 public:
  store(worker_pool& pool, const buffer_cache_options& options)
      : pool_(pool),
        core_(pool_access::core(pool)),
        options_(options),
        pressure_(core_.machine().files) {}

  [[nodiscard]] worker_pool& pool() noexcept { return pool_; }

  buffer find(const request& what) {
    if (core_.is_forked_child()) {
      return {};
    }
    std::vector<buffer> let_go;  // outlives the lock
    buffer found;
    const base::lock_guard lock(mutex_);
    expire(let_go);
    // The newest first: its lines are the likeliest to be in a cache still.
    const auto newest = std::find_if(kept_.rbegin(), kept_.rend(), [&](const entry& one) {
      return suits(one.held, what, core_.machine().memory.page_size_bytes());
    });
    if (newest == kept_.rend()) {
      ++stats_.misses;
      return found;
    }
    ++stats_.hits;
    found = std::move(newest->held);
    stats_.bytes -= found.mapped_bytes();
    kept_.erase(std::next(newest).base());
    return found;
  }

  void make_new(buffer& held, const request& what, contents wanted) {
    memory::buffer_state::of(held).size_bytes = what.size_bytes;
    if (wanted == contents::zeroed) {
      blocks::zero(core_, held.node_requested(), held.data(), held.mapped_bytes());
    }
  }

  void give(buffer&& unused) noexcept {
    buffer held = std::move(unused);
    if (!held || core_.is_forked_child() || !memory::buffer_state::of(held).is_ours()) {
      return;
    }
    std::vector<buffer> let_go;
    try {
      const bool may_stay = !held.node_requested().is_unknown() && is_in_place(held) &&
                            (options_.bytes_max == 0 || held.mapped_bytes() <= options_.bytes_max);
      const base::lock_guard lock(mutex_);
      expire(let_go);
      if (!may_stay || is_scarce()) {
        ++stats_.refused;
        return;
      }
      kept_.reserve(kept_.size() + 1);
      let_go.reserve(let_go.size() + kept_.size());
      stats_.bytes += held.mapped_bytes();
      kept_.push_back({std::move(held), clock::now()});
      ++stats_.kept;
      if (options_.bytes_max != 0) {
        trim_to(options_.bytes_max, stats_.trimmed_for_size, let_go);
      }
    } catch (const std::exception&) {  // bad_alloc: it is let go of
    }
  }

  std::size_t trim(std::size_t keep_bytes) noexcept {
    return let_go_of([&](std::vector<buffer>& let_go) NUMAPOOL_REQUIRES(mutex_) {
      trim_to(keep_bytes, stats_.trimmed_by_call, let_go);
    });
  }
  std::size_t trim_older_than(std::chrono::nanoseconds age) noexcept {
    return let_go_of([&](std::vector<buffer>& let_go) NUMAPOOL_REQUIRES(mutex_) {
      trim_given_before(clock::now() - age, stats_.trimmed_by_call, let_go);
    });
  }

  [[nodiscard]] buffer_cache_stats stats() const {
    const base::lock_guard lock(mutex_);
    buffer_cache_stats now = stats_;
    now.buffers = kept_.size();
    return now;
  }

 private:
  struct entry {
    buffer held;
    clock::time_point given;
  };

  template <typename Trim>
  std::size_t let_go_of(Trim trim) noexcept {
    if (core_.is_forked_child()) {
      return 0;
    }
    std::vector<buffer> let_go;
    std::size_t before = 0;
    try {
      const base::lock_guard lock(mutex_);
      before = stats_.bytes;
      let_go.reserve(kept_.size());
      trim(let_go);
      return before - stats_.bytes;
    } catch (const std::exception&) {  // bad_alloc, before anything was let go of
      return 0;
    }
  }

  [[nodiscard]] bool is_scarce() NUMAPOOL_REQUIRES(mutex_) {
    return options_.pressure_max > 0 &&
           pressure_.some_percent(clock::now()) > options_.pressure_max;
  }
  // What age and pressure say.
  void expire(std::vector<buffer>& let_go) NUMAPOOL_REQUIRES(mutex_) {
    if (options_.age_max.count() > 0) {
      trim_given_before(clock::now() - options_.age_max, stats_.trimmed_for_age, let_go);
    }
    if (!kept_.empty() && is_scarce()) {
      trim_to(0, stats_.trimmed_for_pressure, let_go);
    }
  }
  void trim_given_before(clock::time_point limit, std::uint64_t& count, std::vector<buffer>& let_go)
      NUMAPOOL_REQUIRES(mutex_) {
    const auto first_young = std::find_if(kept_.begin(), kept_.end(),
                                          [limit](const entry& one) { return one.given >= limit; });
    drop_before(first_young - kept_.begin(), count, let_go);
  }
  void trim_to(std::size_t keep_bytes, std::uint64_t& count, std::vector<buffer>& let_go)
      NUMAPOOL_REQUIRES(mutex_) {
    std::ptrdiff_t dropped = 0;
    for (std::size_t left = stats_.bytes; left > keep_bytes; ++dropped) {
      left -= kept_[static_cast<std::size_t>(dropped)].held.mapped_bytes();
    }
    drop_before(dropped, count, let_go);
  }
  // The oldest are at the front. Their memory is given back when the lock is no longer held.
  void drop_before(std::ptrdiff_t count_dropped, std::uint64_t& count, std::vector<buffer>& let_go)
      NUMAPOOL_REQUIRES(mutex_) {
    let_go.reserve(let_go.size() + static_cast<std::size_t>(count_dropped));
    for (auto one = kept_.begin(); one != kept_.begin() + count_dropped; ++one) {
      count += one->held.mapped_bytes();
      stats_.bytes -= one->held.mapped_bytes();
      let_go.push_back(std::move(one->held));
    }
    kept_.erase(kept_.begin(), kept_.begin() + count_dropped);
  }

  worker_pool& pool_;
  detail::pool_core& core_;
  const buffer_cache_options options_;

  mutable base::mutex mutex_;
  std::vector<entry> kept_ NUMAPOOL_GUARDED_BY(mutex_);  // by when they were given
  buffer_cache_stats stats_ NUMAPOOL_GUARDED_BY(mutex_);
  blocks::memory_pressure pressure_ NUMAPOOL_GUARDED_BY(mutex_);
};

buffer_cache::buffer_cache(worker_pool& pool, const buffer_cache_options& options)
    : store_(std::make_unique<store>(pool, options)) {}

buffer_cache::~buffer_cache() = default;

buffer buffer_cache::take(const request& what, contents wanted, boost::system::error_code& error) {
  error.clear();
  if (buffer found = store_->find(what)) {
    store_->make_new(found, what, wanted);
    return found;
  }
  return store_->pool().allocate(what, error);
}

buffer buffer_cache::take(const request& what, contents wanted) {
  boost::system::error_code error;
  buffer made = take(what, wanted, error);
  if (error) {
    base::raise(made.why());
  }
  return made;
}

void buffer_cache::give(buffer&& unused) noexcept {
  store_->give(std::move(unused));
}
std::size_t buffer_cache::trim(std::size_t keep_bytes) noexcept {
  return store_->trim(keep_bytes);
}
std::size_t buffer_cache::trim_older_than(std::chrono::nanoseconds age) noexcept {
  return store_->trim_older_than(age);
}
buffer_cache_stats buffer_cache::stats() const {
  return store_->stats();
}

}  // namespace numapool
