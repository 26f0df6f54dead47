// SPDX-License-Identifier: Apache-2.0
#include "memory/streaming_zero.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace numapool::memory {

#if defined(__SSE2__)

// Whole lines, so that each leaves the write buffer at once; wider stores gained nothing.
void zero_past_caches(std::byte* data, std::size_t size_bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  const std::size_t before = std::min(
      (line_bytes - reinterpret_cast<std::uintptr_t>(data) % line_bytes) % line_bytes, size_bytes);
  std::memset(data, 0, before);
  data += before;
  size_bytes -= before;
  const __m128i zero = _mm_setzero_si128();
  for (; size_bytes >= line_bytes; size_bytes -= line_bytes, data += line_bytes) {
    auto* const line = reinterpret_cast<__m128i*>(data);
    _mm_stream_si128(line, zero);
    _mm_stream_si128(line + 1, zero);
    _mm_stream_si128(line + 2, zero);
    _mm_stream_si128(line + 3, zero);
  }
  std::memset(data, 0, size_bytes);
  _mm_sfence();  // streaming stores are ordered by nothing else
}

#else

// On AArch64 the C library's memset zeroes whole lines without fetching them (DC ZVA).
void zero_past_caches(std::byte* data, std::size_t size_bytes) noexcept {
  std::memset(data, 0, size_bytes);
}

#endif

}  // namespace numapool::memory
