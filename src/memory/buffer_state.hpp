// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a buffer owns and knows, and how it is given back.

#include <cstdint>
#include <memory>
#include <vector>

#include <numapool/buffer.hpp>

#include "platform/platform.hpp"

namespace numapool::memory {

/// Bytes and buffers of the whole process, whichever pool made them.
struct buffer_totals {
  std::uint64_t buffers_live = 0;
  std::uint64_t bytes_mapped = 0;
  std::uint64_t bytes_registered = 0;
  std::uint64_t release_failures = 0;
};
[[nodiscard]] buffer_totals current_totals() noexcept;

/// Owns one mapping and its registrations. Made by `allocation`, then held by `buffer`; either way
/// the destructor undoes what there is, in reverse.
struct buffer_state {
  explicit buffer_state(platform::platform& machine);
  /// Holds no memory: what an asynchronous operation delivers with an error.
  explicit buffer_state(failure why);
  ~buffer_state();
  buffer_state(const buffer_state&) = delete;
  buffer_state& operator=(const buffer_state&) = delete;

  [[nodiscard]] static buffer to_buffer(std::unique_ptr<buffer_state> state) {
    return buffer(std::move(state));
  }
  /// Null where the buffer was default-constructed or moved from.
  [[nodiscard]] static buffer_state* of(const buffer& held) noexcept { return held.state_.get(); }
  [[nodiscard]] bool holds_memory() const noexcept { return mapped.data != nullptr; }
  /// False in a forked child: the pages are its parent's (MADV_DONTFORK), and so is the driver's
  /// knowledge of them.
  [[nodiscard]] bool is_ours() const noexcept {
    return machine->threads.process_generation() == process_generation;
  }

  /// Takes ownership of a fresh mapping.
  void adopt(const platform::mapping& made) noexcept;
  /// Notes one range that the registrar has just accepted.
  void add_registration(const registration& made);
  /// Unregisters what is registered, last first; false when the driver refused some, which then
  /// stays listed, and the memory must stay mapped.
  [[nodiscard]] bool unregister_all() noexcept;
  void give_back_pages() noexcept;

  platform::platform* machine = nullptr;  // outlives every buffer
  std::uint64_t process_generation =
      0;  // of the process that owns the memory: a forked child does not
  platform::mapping mapped;
  std::vector<registration> registrations;
  int registered_device = -1;  // the ordinal that register_range was given

  request asked;  // its node resolved
  std::size_t size_bytes = 0;
  node_id node_requested;
  numapool::node_source node_source = numapool::node_source::unknown;
  node_id node_of_workers;
  unsigned workers = 0;
  std::optional<int> device;
  numapool::route route = route::node_workers;
  numapool::placement placement;
  page_outcome pages;
  bind_outcome policy;
  pin_outcome pin;
  numapool::timings timings;
  failure why;

  std::unique_ptr<buffer_state> next_released;  // the release queue's

 private:
  void release() noexcept;
};

}  // namespace numapool::memory
