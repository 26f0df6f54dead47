// SPDX-License-Identifier: Apache-2.0
//
// Goal: every way of zeroing zeroes the whole of its range and not a byte beside it, whatever its
// alignment and length.
// Method: every start within two cache lines with every length up to four, and ends around whole
// pages, each between bytes that must stay.

#include "memory/streaming_zero.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace numapool::memory {
namespace {

constexpr std::byte canary{0xA5};
constexpr std::size_t line = 64;
constexpr std::size_t margin = 2 * line;

// Memory that starts on a line, with room for the longest range and its margins.
class written_memory {
 public:
  explicit written_memory(std::size_t size_bytes) : storage_(size_bytes + line) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + (line - address % line) % line;
    size_ = size_bytes;
  }
  // Zeroes [offset, offset + length); whether that and nothing else is zero.
  template <typename Zero>
  bool zeroes_exactly(Zero&& zero, std::size_t offset, std::size_t length) {
    std::fill(data_, data_ + size_, canary);
    zero(data_ + offset, length);
    const auto is = [](std::byte wanted) {
      return [wanted](std::byte found) {
        return found == wanted;
      };
    };
    return std::all_of(data_, data_ + offset, is(canary)) &&
           std::all_of(data_ + offset, data_ + offset + length, is(std::byte{0})) &&
           std::all_of(data_ + offset + length, data_ + size_, is(canary));
  }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::vector<detail::zeroing_way> ways_here() {
  std::vector<detail::zeroing_way> found;
  for (std::size_t i = 0; i < detail::zeroing_ways_max; ++i) {
    const detail::zeroing_way& way = detail::zeroing_ways()[i];
    if (way.name != nullptr && way.is_here) {
      found.push_back(way);
    }
  }
  return found;
}

TEST(StreamingZero, ZeroesEveryStartAndLengthWithinSomeLines) {
  written_memory memory(margin + 2 * line + 4 * line + margin);
  ASSERT_FALSE(ways_here().empty());
  for (const detail::zeroing_way& way : ways_here()) {
    for (std::size_t start = 0; start < 2 * line; ++start) {
      for (std::size_t length = 0; length <= 4 * line; ++length) {
        ASSERT_TRUE(memory.zeroes_exactly(way.zero, margin + start, length))
            << way.name << ", start " << start << ", length " << length;
      }
    }
  }
}

TEST(StreamingZero, ZeroesWholePagesAndWhatIsLeftOver) {
  constexpr std::size_t page = 4096;
  written_memory memory(margin + 5 * page + 2 * line + margin);
  for (const detail::zeroing_way& way : ways_here()) {
    for (const std::size_t pages : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
      for (std::size_t more = 0; more < 2 * line; ++more) {
        ASSERT_TRUE(memory.zeroes_exactly(way.zero, margin + more % 17, pages * page + more))
            << way.name << ", " << pages << " pages and " << more;
        ASSERT_TRUE(memory.zeroes_exactly(way.zero, margin, pages * page - more));
      }
    }
  }
}

TEST(StreamingZero, ZeroesByTrialWhateverTheTrialSays) {
  constexpr std::size_t kib = 1024;
  written_memory memory(margin + 300 * kib + margin);
  for (const std::size_t around : {0 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib}) {
    for (const std::size_t length : {around, around + 1, around + 4095}) {
      ASSERT_TRUE(memory.zeroes_exactly(zero_by_trial, margin + around % 61, length)) << length;
    }
  }
}

TEST(StreamingZero, TakesTheBestWayThereIs) {
  written_memory memory(margin + 10'000 + margin);
  EXPECT_TRUE(memory.zeroes_exactly(streaming_zero, margin + 3, 9'999));
  EXPECT_TRUE(memory.zeroes_exactly(streaming_zero, margin, 0));
  streaming_zero(nullptr, 0);
  EXPECT_STREQ(ways_here().back().name, "memset");
}

}  // namespace
}  // namespace numapool::memory
