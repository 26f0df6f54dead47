// SPDX-License-Identifier: Apache-2.0
#pragma once

// Buffers that are used again: a staging buffer that is let go of and asked for once more need not
// be mapped, filled, checked and pinned once more.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>

namespace numapool {

class worker_pool;

struct buffer_cache_options {
  /// Kept at most, in bytes mapped; the oldest are let go of first. 0: no limit.
  std::size_t bytes_max = 0;
  /// A buffer that nobody has asked for that long is let go of. 0: no limit.
  std::chrono::milliseconds age_max{0};
  /// Everything is let go of while tasks of this process's cgroup, or of the machine, wait for
  /// memory more than this share of the time: "some avg10" in percent, Linux 4.20,
  /// Documentation/accounting/psi.rst. 0: not looked at; nor where the kernel does not say.
  double pressure_max = 10;
};

struct buffer_cache_stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t kept = 0;     ///< buffers taken in by give()
  std::uint64_t refused = 0;  ///< let go of by give(): see there
  std::size_t buffers = 0;    ///< in the cache now
  std::size_t bytes = 0;      ///< theirs, mapped
  // Bytes let go of since the beginning, by reason:
  std::uint64_t trimmed_for_size = 0;
  std::uint64_t trimmed_for_age = 0;
  std::uint64_t trimmed_for_pressure = 0;
  std::uint64_t trimmed_by_call = 0;
};

/// What a buffer that is used again holds.
enum class contents : std::uint8_t {
  zeroed,  ///< zeros, like a new one
  as_is    ///< whatever its last user left in it: for who overwrites it all
};

/// Keeps buffers for the next request that asks for the same: same node, device, size in whole
/// pages, and the same page, pin and bind policies and registrations. For a handful of large
/// buffers: finding one looks at each.
///
/// A buffer is kept only if its pages are where they were asked for, which give() looks up (64
/// samples) since they may have been moved meanwhile; with bind_policy::strict all that it looked
/// at. So none is ever handed out for another node.
/// It looks at ages and at the memory pressure when it is called, the latter once a second at most:
/// it has no thread of its own. A quiet program calls trim_older_than().
///
/// Threads: every member may be called by any number of threads at once. Requires: the pool
/// outlives it. Buffers outlive both. In a forked child it hands nothing out and keeps nothing.
class buffer_cache {
 public:
  explicit buffer_cache(worker_pool& pool, const buffer_cache_options& options = {});
  /// Lets go of all.
  ~buffer_cache();
  buffer_cache(const buffer_cache&) = delete;
  buffer_cache& operator=(const buffer_cache&) = delete;

  /// A kept buffer, else a new one of pool.allocate(). Of a kept one the handle says what was
  /// obtained when it was made, and where its pages were when it was given.
  /// Blocks. Errors: those of worker_pool::allocate(), where it has to allocate. A device without
  /// a node in the request is found by what it was when the buffer was made.
  /// Cost of a hit: as_is, a lock and no system call; zeroed, besides: up to 4 MiB a memset by the
  /// caller, above that by the node's workers, above 64 MiB past the caches at some 25 GB/s each.
  [[nodiscard]] buffer take(const request& what, contents wanted = contents::zeroed);
  [[nodiscard]] buffer take(const request& what, contents wanted, boost::system::error_code& error);

  /// Keeps `unused`, or lets go of it: where its pages are elsewhere, nobody looked or can tell,
  /// it alone is larger than bytes_max, or memory is scarce. An empty one is nothing.
  /// Requires: no device or thread uses it any more.
  void give(buffer&& unused) noexcept;

  /// Lets go of the oldest until at most `keep_bytes` are left; the bytes let go of.
  std::size_t trim(std::size_t keep_bytes) noexcept;
  /// Lets go of those given longer ago; the bytes let go of.
  std::size_t trim_older_than(std::chrono::nanoseconds age) noexcept;

  [[nodiscard]] buffer_cache_stats stats() const;

 private:
  class store;
  std::unique_ptr<store> store_;
};

}  // namespace numapool
