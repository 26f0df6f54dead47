// SPDX-License-Identifier: Apache-2.0
#pragma once

// jemalloc without its taking over this program's malloc. A library of its own holds Debian's
// archive of it, whose names it keeps to itself, and gives these. Loading libjemalloc.so at run
// time is no way: its thread-local storage is of the kind that must be there from the start.
// Threads: safe.

#include <cstddef>

#define NUMAPOOL_VISIBLE __attribute__((visibility("default")))

namespace numapool::bench {

/// "5.3.0".
[[nodiscard]] NUMAPOOL_VISIBLE const char* jemalloc_version() noexcept;
/// Zero, and resident or not; null when there is none.
[[nodiscard]] NUMAPOOL_VISIBLE void* jemalloc_zeroed(std::size_t size_bytes) noexcept;
NUMAPOOL_VISIBLE void jemalloc_free(void* data) noexcept;
/// Gives all that was freed back to the kernel.
NUMAPOOL_VISIBLE void jemalloc_settle() noexcept;

}  // namespace numapool::bench
