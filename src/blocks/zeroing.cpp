// SPDX-License-Identifier: Apache-2.0
#include "blocks/zeroing.hpp"

#include <algorithm>
#include <utility>

#include "memory/streaming_zero.hpp"

namespace numapool::blocks {
namespace {

// 25 to 50 us each: what one who began late is behind the others at the end.
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;
// To wake a worker takes 10 to 40 us, in which the caller alone zeroes 1 MiB.
constexpr std::size_t shared_bytes_min = std::size_t{4} << 20U;
// Of what was written just before it was given back, so much may be near enough in the caches that
// to bypass them is slower (1.4 times at 16 MiB, 4 times at 2 MiB).
constexpr std::size_t cached_bytes_max = std::size_t{32} << 20U;

struct sharing {
  std::shared_ptr<zeroing> work;
  detail::node_workers* workers;
  void operator()() const { work->share_on(*workers); }
};

}  // namespace

bool is_worth_sharing(std::size_t size_bytes) noexcept {
  return size_bytes >= shared_bytes_min;
}

zeroing::zeroing(std::byte* data, std::size_t size_bytes, clock::time_point deadline) noexcept
    : data_(data),
      size_bytes_(size_bytes),
      pieces_((size_bytes + piece_bytes - 1) / piece_bytes),
      deadline_(deadline) {}

bool zeroing::share_on(detail::node_workers& workers) {
  const std::size_t taken = std::min(next_.load(std::memory_order_relaxed), pieces_);
  if (taken == pieces_) {
    return false;
  }
  self_ = shared_from_this();
  workers.share(*this, pieces_ - taken);
  return true;
}

bool zeroing::run_next() noexcept {
  if (deadline_ != clock::time_point::max() && clock::now() > deadline_) {
    stop();
  }
  const std::size_t piece = next_.fetch_add(1, std::memory_order_relaxed);
  if (piece >= pieces_) {
    return false;
  }
  const std::size_t offset = piece * piece_bytes;
  const auto zero = size_bytes_ < cached_bytes_max ? memory::zero_by_trial : memory::streaming_zero;
  zero(data_ + offset, std::min(piece_bytes, size_bytes_ - offset));
  zeroed_.fetch_add(1, std::memory_order_relaxed);
  end(1);
  return true;
}

void zeroing::stop() noexcept {
  const std::size_t begun = next_.exchange(pieces_, std::memory_order_relaxed);
  if (begun < pieces_) {
    end(pieces_ - begun);
  }
}

// Whoever ends the last has seen what all others wrote.
void zeroing::end(std::size_t pieces) noexcept {
  if (ended_.fetch_add(pieces, std::memory_order_acq_rel) + pieces == pieces_) {
    ended_all_.signal();
  }
}

bool zeroing::run_piece(std::size_t) noexcept {
  return run_next();
}

void zeroing::finished() noexcept {
  const std::shared_ptr<zeroing> ending = std::move(self_);
}

bool zero_and_wait(std::byte* data, std::size_t size_bytes, detail::node_workers* workers,
                   zeroing::clock::time_point deadline) {
  if (!is_worth_sharing(size_bytes)) {
    memory::zero_by_trial(data, size_bytes);
    return true;
  }
  const auto work = std::make_shared<zeroing>(data, size_bytes, deadline);
  if (workers != nullptr && workers->runs_here()) {
    work->share_on(*workers);
  } else if (workers != nullptr) {
    detail::enqueue_function(*workers, sharing{work, workers});
  }
  while (work->run_next()) {
  }
  // Pieces that others have begun end soon; no worker that has not begun is waited for.
  work->wait(workers != nullptr ? workers->caller_spin() : std::chrono::nanoseconds(0));
  return work->is_whole();
}

}  // namespace numapool::blocks
