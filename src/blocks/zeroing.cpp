// SPDX-License-Identifier: Apache-2.0
#include "blocks/zeroing.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "memory/streaming_zero.hpp"
#include "pool/node_workers.hpp"

namespace numapool::blocks {
namespace {

// Up to here a memset that may use the caches is done before a worker would have woken and begun.
constexpr std::size_t by_caller_bytes_max = 4ULL << 20U;
// Up to here the last cache is likely to have room, and its user will want it there.
constexpr std::size_t cached_bytes_max = 64ULL << 20U;
constexpr std::size_t piece_bytes = 4ULL << 20U;  // a fifth of a millisecond each

// Lives on the caller's stack until it signals.
class zeroing_work final : public detail::piecewise_work {
 public:
  zeroing_work(std::byte* data, std::size_t size_bytes) noexcept
      : data_(data), size_bytes_(size_bytes) {}

  bool run_piece(std::size_t piece) noexcept override {
    const std::size_t offset = piece * piece_bytes;
    const std::size_t size = std::min(piece_bytes, size_bytes_ - offset);
    if (size_bytes_ <= cached_bytes_max) {
      std::memset(data_ + offset, 0, size);
    } else {
      memory::zero_past_caches(data_ + offset, size);
    }
    return true;
  }
  void finished() noexcept override { done_.signal(); }

  [[nodiscard]] std::size_t pieces() const noexcept {
    return (size_bytes_ + piece_bytes - 1) / piece_bytes;
  }
  /// The pool shuts down and none of it was done.
  void be_dropped() noexcept {
    is_dropped_ = true;
    done_.signal();
  }
  /// Whether the workers did it.
  [[nodiscard]] bool wait() noexcept {
    done_.wait(std::chrono::nanoseconds(0));
    return !is_dropped_;
  }

 private:
  std::byte* const data_;
  const std::size_t size_bytes_;
  bool is_dropped_ = false;
  detail::wait_point done_;
};

struct sharing {
  zeroing_work* work;
  detail::node_workers* workers;
  void operator()() { workers->share(*work, work->pieces()); }
  void abandon() noexcept { work->be_dropped(); }
};

bool zero_by_workers(detail::pool_core& pool, node_id node, zeroing_work& work) {
  if (pool.is_forked_child() || pool.is_worker()) {
    return false;
  }
  detail::node_workers* workers = nullptr;
  try {
    if (pool.find_workers(node, workers)) {
      return false;
    }
    detail::enqueue_function(*workers, sharing{&work, workers});
  } catch (const std::exception&) {  // bad_alloc: nothing was queued
    return false;
  }
  return work.wait();
}

}  // namespace

void zero(detail::pool_core& pool, node_id node, std::byte* data, std::size_t size_bytes) noexcept {
  if (size_bytes <= by_caller_bytes_max) {
    std::memset(data, 0, size_bytes);
    return;
  }
  zeroing_work work(data, size_bytes);
  if (!zero_by_workers(pool, node, work)) {
    memory::zero_past_caches(data, size_bytes);
  }
}

}  // namespace numapool::blocks
