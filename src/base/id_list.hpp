// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel's list and mask texts, read into ranges, whatever the ids stand for.

#include <cstdint>
#include <string_view>
#include <vector>

#include <numapool/error.hpp>

namespace numapool::base {

struct id_range {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Appends the ranges of a list such as "0-15,32-47". Spaces round numbers and dashes are legal,
/// and so are blank parts between commas, which the kernel's own reader (bitmap_parselist) skips
/// too; its stride form "0-10:1/2" and the words it knows ("all", "N") are not: no file of the
/// kernel prints them. Returns errc::malformed_list naming the part that is wrong, `ranges` then
/// being unspecified; else an unset failure.
[[nodiscard]] failure read_id_list(std::string_view text, std::uint32_t id_max,
                                   std::vector<id_range>& ranges);

/// Likewise for a mask such as "00000000,0000ffff": words of one to eight hexadecimal digits, 32
/// bits each, the last word lowest. A blank word is an error, as it would move all bits above it.
[[nodiscard]] failure read_id_mask(std::string_view text, std::uint32_t id_max,
                                   std::vector<id_range>& ranges);

}  // namespace numapool::base
