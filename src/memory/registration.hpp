// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pinning with CUDA: which device, in which ranges, and the undoing of a half-done one.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include <numapool/buffer.hpp>
#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "base/mutex.hpp"
#include "memory/buffer_state.hpp"
#include "platform/platform.hpp"

namespace numapool::memory {

struct chunk_options {
  std::size_t chunk_bytes = 0;         // as asked; 0: as large as the driver takes
  std::size_t block_stride_bytes = 0;  // 0: no blocks
  std::size_t page_size_bytes = 0;     // two ranges must not share a page
  std::size_t limit_bytes = 0;         // what one registration may be: registration_limit_bytes()
};

/// The largest single registration: 64 GiB, as drivers from r580 refuse 512 GiB (vllm#51080) and
/// chunks let other CUDA calls through; 2 GiB on kernels 6.11 to 6.13, which fail longer pins
/// (NV-Kernels#108).
[[nodiscard]] std::size_t registration_limit_bytes(const platform::files& files);

/// The length of each registration but the last, for a range of `size_bytes`. A multiple of the
/// page and, with blocks, of the stride, so that no block straddles two. Empty when one block is
/// longer than a registration may be.
[[nodiscard]] std::optional<std::size_t> chunk_length(const chunk_options& options,
                                                      std::size_t size_bytes);

/// The device to register for when the caller named none: one of the node's, preferring those where
/// this process has a context already; else any with a context; else the node's first; else 0.
[[nodiscard]] int choose_device(const platform::platform& machine, const topology& nodes,
                                node_id node, int device_count);

/// Registers a buffer in chunks, in order, each as soon as it is resident, while others go on to
/// make the rest so. Between chunks it rests, so that other threads' driver calls get their turn: a
/// driver's lock is not fair to those who wait, who sleep, against one who asks again at once.
///
/// Threads: add_resident() and register_ready() by any number; register_rest() alone.
class chunked_registration {
 public:
  /// Asked between chunks: whether to go on.
  using interruption = std::function<failure()>;

  /// `state` outlives it and has no registration. Becomes resident in pieces of `piece_bytes`.
  chunked_registration(buffer_state& state, int device, std::size_t chunk_bytes,
                       std::size_t piece_bytes);

  [[nodiscard]] bool has_chunks() const noexcept;  ///< more than one
  void add_resident(std::size_t piece);
  /// Registers what is resident, unless another thread is at it. On an error what was registered
  /// stays so in the state: the caller drops it.
  [[nodiscard]] failure register_ready(const interruption& interrupted);
  /// Registers all that is not yet. On an error nothing is registered, unless the driver also
  /// refuses to take back a part, which then stays in `state.registrations`.
  [[nodiscard]] failure register_rest(const interruption& interrupted);
  /// Spent registering so far, rests left out.
  [[nodiscard]] std::chrono::nanoseconds busy_time() const noexcept { return busy_; }

 private:
  [[nodiscard]] std::size_t resident_bytes() const;
  [[nodiscard]] bool is_ready() const;
  [[nodiscard]] std::size_t next_chunk_bytes() const noexcept;
  [[nodiscard]] failure register_next(const interruption& interrupted);
  void rest_after(std::chrono::nanoseconds taken);

  buffer_state& state_;
  const int device_;
  const std::size_t chunk_bytes_;
  const std::size_t piece_bytes_;

  std::atomic<bool> is_registering_{false};  // whoever sets it owns the three below
  std::atomic<std::size_t> registered_bytes_{0};
  std::chrono::nanoseconds busy_{0};
  std::chrono::nanoseconds busy_since_rest_{0};

  mutable base::mutex mutex_;
  std::vector<bool> is_piece_resident_ NUMAPOOL_GUARDED_BY(mutex_);
  std::size_t resident_pieces_ NUMAPOOL_GUARDED_BY(mutex_) = 0;  // all before this one are
};

}  // namespace numapool::memory
