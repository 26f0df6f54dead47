// SPDX-License-Identifier: Apache-2.0
#pragma once

// Buffers that are kept when they are done with, and handed out again where the same is asked for:
// what is resident and pinned already need not be made so anew.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>
#include <numapool/detail/refusal.hpp>
#include <numapool/detail/submit.hpp>
#include <numapool/worker_pool.hpp>

namespace numapool {

/// What is in the memory of a buffer that was taken. `zeroed`: zeros, as in a new one. `as_is`:
/// what its last owner left there, for callers that overwrite it all; a new one is zeroed all the
/// same.
enum class contents : std::uint8_t { zeroed, as_is };

struct buffer_cache_options {
  /// Kept at most, in mapped bytes; the oldest go first. By default there is no limit but the
  /// memory pressure.
  std::size_t max_bytes = SIZE_MAX;
  /// Buffers kept longer go; 0: none does for its age.
  std::chrono::nanoseconds max_age{0};
  /// While tasks of this process's cgroup, or of the whole machine, spend a larger share of their
  /// time waiting for memory (`some avg10` of memory.pressure and /proc/pressure/memory, in
  /// percent), the older half of what is kept goes, once a second. 0: not looked at. A kernel
  /// without these files exerts no pressure.
  double pressure_limit_percent = 10;
};

/// Buffers and their mapped bytes.
struct buffer_count {
  std::uint64_t buffers = 0;
  std::uint64_t bytes = 0;
};

struct buffer_cache_stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;  ///< takes that went to the pool, whatever came of it
  buffer_count kept;         ///< now
  // What give() was given and did not keep, since the cache was made: buffers of another machine's
  // or process's, off the node route, on another node than they were asked for, not wholly there
  // though strictly asked for, larger than max_bytes, or of which nothing says where they are.
  buffer_count refused;
  // What was kept and went, by its reason:
  buffer_count trimmed_by_bytes;     ///< max_bytes
  buffer_count trimmed_by_age;       ///< max_age
  buffer_count trimmed_by_pressure;  ///< pressure_limit_percent
  buffer_count trimmed_by_call;      ///< trim(), trim_older_than(), clear()
  buffer_count trimmed_for_room;     ///< a miss found too little memory; it was tried again
};

namespace detail {

class cache_core;

/// One asynchronous take on its way: what was found, or the allocation that is to be made.
struct prepared_take {
  buffer found;
  std::shared_ptr<allocation_task> missed;
  node_workers* workers = nullptr;  // that complete it by default
};

[[nodiscard]] pool_core& pool_of(cache_core& cache) noexcept;
/// Looks, and asks what can be refused at once.
[[nodiscard]] failure prepare_take(cache_core& cache, const request& what, prepared_take& ready);
/// Zeroes what was found, or makes a new one. The handler is called once, never inside this call.
void start_take(cache_core& cache, const request& what, prepared_take ready,
                allocation_handler handler);
[[nodiscard]] failure shut_down_failure(const request& what);

struct initiate_take {
  template <typename Handler>
  void operator()(Handler&& handler, cache_core* cache, const request& what,
                  contents wanted) const {
    using told = refused_allocation<std::decay_t<Handler>>;
    prepared_take ready;
    if (const failure why = prepare_take(*cache, what, ready)) {
      refuse(pool_of(*cache), why,
             told{std::forward<Handler>(handler), why.code, failed_buffer(why)});
    } else if (ready.found && wanted == contents::as_is) {
      refuse(pool_of(*cache), shut_down_failure(what),
             told{std::forward<Handler>(handler), {}, std::move(ready.found)}, ready.workers);
    } else {
      start_take(*cache, what, std::move(ready),
                 allocation_handler(std::forward<Handler>(handler)));
    }
  }
};

}  // namespace detail

/// Keeps buffers of one pool for reuse.
///
/// A kept buffer answers a request that asks the same as the one it was made for: node, or device
/// alone, page, pin, bind and verify policies, chunks and blocks, and a size that takes up as many
/// pages. Sizes are exact: nothing is ever handed out in place of something smaller. And it answers
/// only as long as its pages are where that request wants them: give() keeps none whose pages, by
/// the witnesses of buffer.hpp, are mostly on another node, or, for bind_policy::strict, not all on
/// the node. The buffer given last is taken first. What was asked of a request's way (populate,
/// huge_page_budget) makes no difference.
///
/// Of a buffer that is handed out again timings() has the zeroing as `populate` and nothing else;
/// all other facts are those of its making, or of give()'s look.
///
/// Threads: every member may be called by any thread, on workers too. There is no thread of its
/// own: age and memory pressure are looked at by give(), the trims and takes that miss, pressure
/// once a second at most. Whoever does none of them calls trim_older_than() now and then.
/// What is let go is given back as any destroyed buffer is.
/// fork: in a child the cache is empty and keeps nothing.
/// Owns: what it keeps. Must not outlive the pool. Buffers taken may outlive both.
class buffer_cache {
 public:
  /// Errors: errc::invalid_option for a negative age or pressure (numapool::error). Enters no
  /// kernel.
  explicit buffer_cache(worker_pool& pool, const buffer_cache_options& options = {});
  /// Lets everything go. Operations under way complete.
  ~buffer_cache();
  buffer_cache(const buffer_cache&) = delete;
  buffer_cache& operator=(const buffer_cache&) = delete;

  /// A kept buffer, else pool.allocate(what). Where a miss finds too little memory, what is kept
  /// goes, of that node alone if that is what is full, and it is tried once more.
  /// Errors: as worker_pool::allocate(); the details as there. errc::called_from_worker only for a
  /// miss. errc::timed_out while zeroing puts the buffer back.
  /// Cost of a hit: as it is, a lock and some 100 ns; no system call, no allocation, no other
  /// thread. Zeroed: the caller zeroes below 4 MiB alone, above together with the node's workers,
  /// of which it waits for none that has not begun.
  [[nodiscard]] buffer take(const request& what, contents wanted = contents::zeroed);
  [[nodiscard]] buffer take(const request& what, boost::system::error_code& error,
                            contents wanted = contents::zeroed);

  /// The same without blocking, under any Asio completion token for void(boost::system::error_code,
  /// buffer): see worker_pool::async_allocate(), also for what throws. Zeroed by the node's
  /// workers; as it is, posted at once. Cancellation, and the request's timeout, stop the zeroing
  /// between pieces of 1 MiB and put the buffer back.
  /// Requires: the pool lives until the operation has completed. The cache need not.
  template <typename CompletionToken>
  auto async_take(const request& what, contents wanted, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, void(boost::system::error_code, buffer)>(
        detail::initiate_take{}, token, core_.get(), what, wanted);
  }

  /// Keeps it, or lets it go; an empty one is nothing. Asks the kernel where 64 of its pages are,
  /// 6 us, since they may have been moved meanwhile; where they were, and the request had all of
  /// them looked at, where all are. Reads the memory pressure once a second. Allocates a few KiB;
  /// without them it lets go.
  void give(buffer&& done_with) noexcept;

  /// Lets the oldest go until at most `keep_bytes` are kept; the bytes that went.
  std::size_t trim(std::size_t keep_bytes) noexcept;
  /// Lets go what was given at least so long ago; the bytes that went.
  std::size_t trim_older_than(std::chrono::nanoseconds age) noexcept;
  /// trim(0).
  void clear() noexcept;

  [[nodiscard]] buffer_cache_stats stats() const noexcept;

 private:
  friend struct cache_access;  // src/blocks/: tests bring a clock of their own
  explicit buffer_cache(std::shared_ptr<detail::cache_core> core) noexcept;
  std::shared_ptr<detail::cache_core> core_;
};

}  // namespace numapool
