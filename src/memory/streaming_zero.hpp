// SPDX-License-Identifier: Apache-2.0
#pragma once

// Zeroing memory that is resident already.

#include <cstddef>

namespace numapool::memory {

/// Zeroes `size_bytes` at `data`, of any alignment and length. On x86-64 with stores that bypass
/// the caches: twice as fast as memset() for memory that is in no cache, and they leave in the
/// caches what was there; but up to five times slower for memory that is in the nearest one.
/// Elsewhere memset(), which on AArch64 zeroes whole cache lines without reading them (glibc: DC
/// ZVA). When it returns, the zeros are ordered before whatever the thread stores next.
/// Threads: any, on distinct ranges.
void streaming_zero(std::byte* data, std::size_t size_bytes) noexcept;

/// The same for memory that may be in the caches, where nobody knows: tries streaming and memset()
/// on 32 KiB each and goes on as the faster one did.
void zero_by_trial(std::byte* data, std::size_t size_bytes) noexcept;

namespace detail {

/// The ways that this CPU has, by name, so that a test may try each. Each has the contract above.
struct zeroing_way {
  const char* name;
  void (*zero)(std::byte* data, std::size_t size_bytes) noexcept;
  bool is_here;
};
inline constexpr std::size_t zeroing_ways_max = 3;
/// Best first; the last is memset() and everywhere. Those beyond the last have no name.
[[nodiscard]] const zeroing_way* zeroing_ways() noexcept;

}  // namespace detail
}  // namespace numapool::memory
