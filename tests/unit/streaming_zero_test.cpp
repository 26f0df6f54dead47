// SPDX-License-Identifier: Apache-2.0
//
// Goal: every byte of the range becomes zero and none beside it is touched, whatever its alignment
// and length.
// Method: all of them around a cache line, between canaries; then a long one.

#include "memory/streaming_zero.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace numapool::memory {
namespace {

constexpr std::byte canary{0xa5};

bool is_all(const std::byte* begin, const std::byte* end, std::byte value) {
  return std::all_of(begin, end, [value](std::byte one) { return one == value; });
}

TEST(StreamingZero, ZeroesItsRangeAndNothingBeside) {
  std::vector<std::byte> area(1024);
  for (std::size_t offset = 64; offset < 192; ++offset) {
    for (std::size_t length = 0; length <= 300; ++length) {
      std::fill(area.begin(), area.end(), canary);
      std::byte* const begin = area.data() + offset;
      zero_past_caches(begin, length);
      ASSERT_TRUE(is_all(begin, begin + length, std::byte{0})) << offset << " + " << length;
      ASSERT_TRUE(is_all(area.data(), begin, canary)) << offset << " + " << length;
      ASSERT_TRUE(is_all(begin + length, area.data() + area.size(), canary))
          << offset << " + " << length;
    }
  }
}

TEST(StreamingZero, ZeroesALongRange) {
  std::vector<std::byte> area((5U << 20U) + 3, canary);
  zero_past_caches(area.data() + 1, area.size() - 2);
  EXPECT_EQ(area.front(), canary);
  EXPECT_EQ(area.back(), canary);
  EXPECT_TRUE(is_all(area.data() + 1, area.data() + area.size() - 1, std::byte{0}));
}

}  // namespace
}  // namespace numapool::memory
