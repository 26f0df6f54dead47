// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pinning with CUDA: which device, in which ranges, and the undoing of a half-done one.

#include <cstddef>
#include <optional>
#include <vector>

#include <numapool/buffer.hpp>
#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "memory/buffer_state.hpp"
#include "platform/platform.hpp"

namespace numapool::memory {

struct chunk_options {
  std::size_t chunk_bytes = 0;         // as asked; 0: as large as the driver takes
  std::size_t block_stride_bytes = 0;  // 0: no blocks
  std::size_t page_size_bytes = 0;     // two ranges must not share a page
  std::size_t limit_bytes = 0;         // what one registration may be: registration_limit_bytes()
};

/// The largest single registration: 64 GiB, as drivers from r580 refuse 512 GiB (vllm#51080) and chunks let other CUDA
/// calls through; 2 GiB on kernels 6.11 to 6.13, which fail longer pins (NV-Kernels#108).
[[nodiscard]] std::size_t registration_limit_bytes(const platform::files& files);

/// The length of each registration but the last, for a range of `size_bytes`. A multiple of the page and, with blocks,
/// of the stride, so that no block straddles two. Empty when one block is longer than a registration may be.
[[nodiscard]] std::optional<std::size_t> chunk_length(const chunk_options& options, std::size_t size_bytes);

/// The device to register for when the caller named none: one of the node's, preferring those where this process has a
/// context already; else any with a context; else the node's first; else 0.
[[nodiscard]] int choose_device(const platform::platform& machine, const topology& nodes, node_id node,
                                int device_count);

/// Registers all of `state`'s memory in chunks of `chunk_bytes` with `device` current. On an error nothing is
/// registered, unless the driver also refuses to take back a part; then that part stays in `state.registrations`.
[[nodiscard]] failure register_all(buffer_state& state, int device, std::size_t chunk_bytes);

}  // namespace numapool::memory
