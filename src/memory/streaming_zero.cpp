// SPDX-License-Identifier: Apache-2.0
#include "memory/streaming_zero.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace numapool::memory {
namespace {

void zero_through_caches(std::byte* data, std::size_t size_bytes) noexcept {
  if (size_bytes != 0) {  // the address may be null then
    std::memset(data, 0, size_bytes);
  }
}

#if defined(__x86_64__)

constexpr std::size_t line_bytes = 64;

// A store of less than a line that bypasses the caches costs as much as a line, so the ragged ends
// are written the ordinary way.
template <void (*ZeroLines)(std::byte*, std::byte*)>
void zero_streaming(std::byte* data, std::size_t size_bytes) noexcept {
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(data) % line_bytes;
  const std::size_t head = std::min(misaligned == 0 ? 0 : line_bytes - misaligned, size_bytes);
  const std::size_t lines = (size_bytes - head) / line_bytes * line_bytes;
  zero_through_caches(data, head);
  if (lines != 0) {
    ZeroLines(data + head, data + head + lines);
    _mm_sfence();  // such stores are ordered with no others
  }
  zero_through_caches(data + head + lines, size_bytes - head - lines);
}

void zero_lines_sse2(std::byte* first, std::byte* last) {
  const __m128i zero = _mm_setzero_si128();
  for (; first != last; first += line_bytes) {
    auto* const line = reinterpret_cast<__m128i*>(first);
    _mm_stream_si128(line, zero);
    _mm_stream_si128(line + 1, zero);
    _mm_stream_si128(line + 2, zero);
    _mm_stream_si128(line + 3, zero);
  }
}

__attribute__((target("avx"))) void zero_lines_avx(std::byte* first, std::byte* last) {
  const __m256i zero = _mm256_setzero_si256();
  for (; first != last; first += line_bytes) {
    auto* const line = reinterpret_cast<__m256i*>(first);
    _mm256_stream_si256(line, zero);
    _mm256_stream_si256(line + 1, zero);
  }
}

#endif

}  // namespace

namespace detail {

// How wide the stores are makes no difference to be measured, nor do string stores (`rep stosb`) to
// memset's (Xeon of 2023, 256 KiB to 64 MiB, each way after the same writes: whichever comes next
// finds the lines elsewhere). Fewer instructions leave the other thread of a core more.
const zeroing_way* zeroing_ways() noexcept {
#if defined(__x86_64__)
  static const zeroing_way ways[zeroing_ways_max] = {
      {"avx", zero_streaming<zero_lines_avx>, __builtin_cpu_supports("avx") != 0},
      {"sse2", zero_streaming<zero_lines_sse2>, true},
      {"memset", zero_through_caches, true}};
#else
  static const zeroing_way ways[zeroing_ways_max] = {{"memset", zero_through_caches, true}, {}, {}};
#endif
  return ways;
}

}  // namespace detail

void streaming_zero(std::byte* data, std::size_t size_bytes) noexcept {
  static const auto best = [] {
    const detail::zeroing_way* way = detail::zeroing_ways();
    while (!way->is_here) {
      ++way;
    }
    return way->zero;
  }();
  best(data, size_bytes);
}

namespace {

template <typename Zero>
std::chrono::nanoseconds time_of(Zero zero) noexcept {
  const auto begun = std::chrono::steady_clock::now();
  zero();
  return std::chrono::steady_clock::now() - begun;
}

}  // namespace

// A thread that is interrupted meanwhile chooses wrong, for this range alone.
void zero_by_trial(std::byte* data, std::size_t size_bytes) noexcept {
  constexpr std::size_t part = std::size_t{32} << 10U;
  if (size_bytes < 4 * part) {
    zero_through_caches(data, size_bytes);
    return;
  }
  const auto streaming = time_of([=] { streaming_zero(data, part); });
  const auto caching = time_of([=] { zero_through_caches(data + part, part); });
  const auto rest = streaming < caching ? streaming_zero : zero_through_caches;
  rest(data + 2 * part, size_bytes - 2 * part);
}

}  // namespace numapool::memory
