// SPDX-License-Identifier: Apache-2.0
#pragma once

// The buffers that a cache keeps, by what they answer and by age. Threads: one at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include <numapool/buffer.hpp>

#include "blocks/reuse_key.hpp"

namespace numapool::blocks {

struct kept_buffer {
  buffer held;
  reuse_key key;
  std::chrono::steady_clock::time_point since;

  // The neighbours of kept_buffers.
  kept_buffer* newer = nullptr;  // by age, of all
  kept_buffer* older = nullptr;
  kept_buffer* above = nullptr;  // by age, of the same key
  kept_buffer* below = nullptr;
  // Of kept_chain.
  kept_buffer* next = nullptr;
};

/// Owns a row of them, to be destroyed where no lock is held.
class kept_chain {
 public:
  kept_chain() noexcept = default;
  ~kept_chain();
  kept_chain(const kept_chain&) = delete;
  kept_chain& operator=(const kept_chain&) = delete;

  void push(std::unique_ptr<kept_buffer> added) noexcept;
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t buffers() const noexcept { return buffers_; }

 private:
  kept_buffer* first_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t buffers_ = 0;
};

class kept_buffers {
 public:
  kept_buffers() = default;
  ~kept_buffers();
  kept_buffers(const kept_buffers&) = delete;
  kept_buffers& operator=(const kept_buffers&) = delete;

  /// As the newest of all. Throws std::bad_alloc, and `added` is still the caller's.
  void add(std::unique_ptr<kept_buffer>& added);
  /// The newest of that key; null: there is none. Allocates nothing, nor do the others.
  [[nodiscard]] std::unique_ptr<kept_buffer> take(const reuse_key& key) noexcept;
  [[nodiscard]] std::unique_ptr<kept_buffer> take(kept_buffer& which) noexcept;

  [[nodiscard]] kept_buffer* oldest() const noexcept { return oldest_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t buffers() const noexcept { return buffers_; }

 private:
  std::unordered_map<reuse_key, kept_buffer*, reuse_key_hash> tops_;  // the newest of each key
  kept_buffer* newest_ = nullptr;
  kept_buffer* oldest_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t buffers_ = 0;
};

}  // namespace numapool::blocks
