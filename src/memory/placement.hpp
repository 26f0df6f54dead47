// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where pages are, by three witnesses in turn: move_pages, else get_mempolicy, else numa_maps.

#include <cstddef>
#include <string_view>

#include <numapool/buffer.hpp>

#include "platform/platform.hpp"

namespace numapool::memory {

struct buffer_state;

/// The range to measure. `page_size_bytes` is what one query may answer for: the huge page size
/// only where the whole range is known to be in such pages, else the base page.
struct measured_range {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  std::size_t page_size_bytes = 0;
  node_id node;  // whose share is asked; unknown: none

  [[nodiscard]] static measured_range of(const buffer_state& state);
};

/// Never fails: what no witness can say is absent from the answer, and `error` has why.
/// Cost: sample, 64 queries; full, one query a page, in batches of 1024. Allocates a few KiB.
[[nodiscard]] placement measure_placement(const platform::platform& machine,
                                          const measured_range& range, verify_policy how);

/// Pages by node of the mappings that start in [begin, end), in a numa_maps text (proc(5)); in base
/// pages. Empty when the text has no such mapping.
[[nodiscard]] std::vector<pages_on_node> read_numa_maps(std::string_view text, std::uint64_t begin,
                                                        std::uint64_t end,
                                                        std::size_t base_page_bytes);

}  // namespace numapool::memory
