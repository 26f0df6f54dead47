// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which requests one kept buffer answers.

#include <cstddef>
#include <optional>

#include <numapool/buffer.hpp>

namespace numapool::blocks {

/// All of a request that decides what it gets. What it got, where its pages are above all, is asked
/// before a buffer is kept: see cache_core::is_well_placed.
struct reuse_key {
  std::size_t mapped_bytes = 0;
  node_id node;  // unknown: the device's
  std::optional<int> device;
  page_policy pages = page_policy::automatic;
  pin_policy pin = pin_policy::automatic;
  bind_policy bind = bind_policy::prefer;
  verify_policy verify = verify_policy::sample;
  std::size_t chunk_bytes = 0;
  std::size_t block_stride_bytes = 0;

  friend bool operator==(const reuse_key&, const reuse_key&) = default;
};

struct reuse_key_hash {
  [[nodiscard]] std::size_t operator()(const reuse_key& key) const noexcept;
};

/// Empty for a request that no pool would fulfil: it must be refused, not answered.
[[nodiscard]] std::optional<reuse_key> key_of(const request& what,
                                              std::size_t base_page_bytes) noexcept;

}  // namespace numapool::blocks
