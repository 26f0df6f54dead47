// SPDX-License-Identifier: Apache-2.0
#include "blocks/reuse_key.hpp"

#include <algorithm>
#include <cstdint>

#include "memory/kernel_pages.hpp"

namespace numapool::blocks {

std::optional<reuse_key> key_of(const request& what, std::size_t base_page_bytes) noexcept {
  const std::size_t unit = std::max(memory::hugetlb_page_bytes(what.pages), base_page_bytes);
  if (what.size_bytes == 0 || what.size_bytes > PTRDIFF_MAX - unit || what.timeout.count() < 0 ||
      what.huge_page_budget.count() < 0) {
    return std::nullopt;
  }
  reuse_key key;
  key.mapped_bytes = (what.size_bytes + unit - 1) / unit * unit;
  key.node = what.node;
  key.device = what.device;
  key.pages = what.pages;
  key.pin = what.pin;
  key.bind = what.bind;
  key.verify = what.verify;
  key.chunk_bytes = what.chunk_bytes;
  key.block_stride_bytes = what.block_stride_bytes;
  return key;
}

// Sizes, nodes and devices differ, the rest seldom does: equality looks at all.
std::size_t reuse_key_hash::operator()(const reuse_key& key) const noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  std::uint64_t mixed = key.mapped_bytes * odd;
  mixed = (mixed ^ (mixed >> 32U) ^ (key.node.is_unknown() ? 0 : key.node.value() + 1U)) * odd;
  mixed = (mixed ^ (mixed >> 32U) ^ static_cast<std::uint64_t>(key.device.value_or(-1))) * odd;
  return static_cast<std::size_t>(mixed ^ (mixed >> 32U));
}

}  // namespace numapool::blocks
