// SPDX-License-Identifier: Apache-2.0
#pragma once

// The zeroing of one buffer in pieces, by a node's workers and whoever waits for it.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include <numapool/detail/submit.hpp>

#include "pool/node_workers.hpp"

namespace numapool::blocks {

/// Threads: every member may be called by any thread. Nothing of the memory is touched after the
/// last piece has ended, though a worker that comes late may still hold this.
class zeroing : public detail::piecewise_work, public std::enable_shared_from_this<zeroing> {
 public:
  using clock = std::chrono::steady_clock;

  zeroing(std::byte* data, std::size_t size_bytes, clock::time_point deadline) noexcept;

  /// Lets the workers that the caller is one of take what pieces are left, and holds itself until
  /// they have let go. False: none is left.
  bool share_on(detail::node_workers& workers);
  /// Zeroes the next piece, if there is one.
  bool run_next() noexcept;
  /// No further piece is begun.
  void stop() noexcept;
  /// Returns when no piece is left or being zeroed. Looks for `spin` before it sleeps.
  void wait(std::chrono::nanoseconds spin) noexcept { ended_all_.wait(spin); }
  /// Every piece was zeroed. Requires: none is left or being zeroed.
  [[nodiscard]] bool is_whole() const noexcept { return zeroed_ == pieces_; }

  bool run_piece(std::size_t piece) noexcept override;
  void finished() noexcept override;

 private:
  void end(std::size_t pieces) noexcept;

  std::byte* const data_;
  const std::size_t size_bytes_;
  const std::size_t pieces_;
  const clock::time_point deadline_;
  std::atomic<std::size_t> next_{0};  // may run beyond the last
  std::atomic<std::size_t> zeroed_{0};
  std::atomic<std::size_t> ended_{0};  // those, and those that stop() left out
  detail::wait_point ended_all_;
  std::shared_ptr<zeroing> self_;  // while the workers share it
};

/// Zeroes it all and waits: by the caller and `workers`, which may be null, together where that
/// pays. False: `deadline` came first.
[[nodiscard]] bool zero_and_wait(std::byte* data, std::size_t size_bytes,
                                 detail::node_workers* workers,
                                 zeroing::clock::time_point deadline);
/// Whether it pays to share this much.
[[nodiscard]] bool is_worth_sharing(std::size_t size_bytes) noexcept;

}  // namespace numapool::blocks
