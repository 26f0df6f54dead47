// SPDX-License-Identifier: Apache-2.0
#include "memory/registration.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include <numapool/device.hpp>

#include "base/check.hpp"
#include "device/device_chain.hpp"

namespace numapool::memory {
namespace {

constexpr std::size_t gib = 1ULL << 30U;

/// Whether the device is on the node, or the node is where its memory goes. May initialise CUDA: a
/// pin is under way.
bool is_near(const platform::platform& machine, const topology& nodes, int device, node_id node) {
  std::string text;
  if (machine.registrar.pci_address(device, text)) {
    return false;
  }
  // A choice among devices is worth no program that may take seconds, and no guess.
  const device_options options{.nvidia_smi_timeout = std::chrono::milliseconds(0),
                               .allow_heuristic = false};
  const auto address = device::address_of_name(text);
  const device_location where =
      device::locate(device::sources_of(machine, nodes), {address, {}, device}, options);
  return !node.is_unknown() && (where.node == node || where.reported_node == node);
}

}  // namespace

std::size_t registration_limit_bytes(const platform::files& files) {
  std::string release;
  int major = 0;
  int minor = 0;
  if (!files.read_text("/proc/sys/kernel/osrelease", release)) {
    const char* const end = release.data() + release.size();
    const auto first = std::from_chars(release.data(), end, major);
    if (first.ec == std::errc() && first.ptr != end && *first.ptr == '.') {
      std::from_chars(first.ptr + 1, end, minor);
    }
  }
  const bool pins_fail_above_2_gib = major == 6 && minor >= 11 && minor <= 13;
  return pins_fail_above_2_gib ? 2 * gib : 64 * gib;
}

std::optional<std::size_t> chunk_length(const chunk_options& options, std::size_t size_bytes) {
  const std::size_t limit = options.limit_bytes;
  if (options.chunk_bytes == 0 && size_bytes <= limit) {
    return size_bytes;
  }
  const std::size_t wanted =
      options.chunk_bytes == 0 ? limit : std::min(options.chunk_bytes, limit);
  const std::size_t stride = std::max<std::size_t>(options.block_stride_bytes, 1);
  // The shortest length that ends on a page and on a block; the product may not fit, but then
  // neither would a block.
  const std::size_t page_factor =
      options.page_size_bytes / std::gcd(options.page_size_bytes, stride);
  if (stride > limit / page_factor) {
    return std::nullopt;
  }
  const std::size_t unit = stride * page_factor;
  return std::max(wanted / unit, std::size_t{1}) * unit;
}

int choose_device(const platform::platform& machine, const topology& nodes, node_id node,
                  int device_count) {
  std::vector<int> active;
  static_cast<void>(machine.registrar.active_devices(active));  // unknown: as if there were none
  for (const int device : active) {
    if (is_near(machine, nodes, device, node)) {
      return device;
    }
  }
  if (!active.empty()) {
    return active.front();
  }
  for (int device = 0; device < device_count; ++device) {
    if (is_near(machine, nodes, device, node)) {
      return device;
    }
  }
  return 0;
}

chunked_registration::chunked_registration(buffer_state& state, int device, std::size_t chunk_bytes,
                                           std::size_t piece_bytes)
    : state_(state), device_(device), chunk_bytes_(chunk_bytes), piece_bytes_(piece_bytes) {
  const std::size_t size = state.mapped.size_bytes;
  NUMAPOOL_CHECK(chunk_bytes > 0 && piece_bytes > 0 && state.registrations.empty());
  state.registrations.reserve((size + chunk_bytes - 1) / chunk_bytes);
  state.registered_device = device;
  is_piece_resident_.resize((size + piece_bytes - 1) / piece_bytes);
}

bool chunked_registration::has_chunks() const noexcept {
  return chunk_bytes_ < state_.mapped.size_bytes;
}

void chunked_registration::add_resident(std::size_t piece) {
  const base::lock_guard lock(mutex_);
  is_piece_resident_[piece] = true;
  while (resident_pieces_ < is_piece_resident_.size() && is_piece_resident_[resident_pieces_]) {
    ++resident_pieces_;
  }
}

std::size_t chunked_registration::resident_bytes() const {
  const base::lock_guard lock(mutex_);
  return std::min(resident_pieces_ * piece_bytes_, state_.mapped.size_bytes);
}

std::size_t chunked_registration::next_chunk_bytes() const noexcept {
  return std::min(chunk_bytes_, state_.mapped.size_bytes - registered_bytes_);
}

bool chunked_registration::is_ready() const {
  return registered_bytes_ < state_.mapped.size_bytes &&
         registered_bytes_ + next_chunk_bytes() <= resident_bytes();
}

// Looks once more after it has let go: a piece that became resident meanwhile found it busy.
failure chunked_registration::register_ready(const interruption& interrupted) {
  while (is_ready() && !is_registering_.exchange(true)) {
    failure why;
    while (!why && is_ready()) {
      why = register_next(interrupted);
    }
    is_registering_ = false;
    if (why) {
      return why;
    }
  }
  return {};
}

failure chunked_registration::register_rest(const interruption& interrupted) {
  NUMAPOOL_CHECK(!is_registering_);
  while (registered_bytes_ < state_.mapped.size_bytes) {
    if (failure why = register_next(interrupted)) {
      static_cast<void>(state_.unregister_all());
      return why;
    }
  }
  return {};
}

failure chunked_registration::register_next(const interruption& interrupted) {
  if (interrupted && registered_bytes_ > 0) {
    if (failure why = interrupted()) {
      return why;
    }
  }
  registration range{registered_bytes_, next_chunk_bytes(), nullptr};
  const auto begun = std::chrono::steady_clock::now();
  const auto cause = state_.machine->registrar.register_range(
      device_, state_.mapped.data + range.offset_bytes, range.size_bytes, &range.device_pointer);
  if (cause) {
    return {errc::registration_failed,
            operation::pin,
            state_.node_requested,
            range.size_bytes,
            cause,
            "CUDA device " + std::to_string(device_) + " refused to register " +
                std::to_string(range.size_bytes) + " bytes: " + cause.message() +
                "; smaller chunks may pass, and a pin by mlock needs no CUDA"};
  }
  state_.add_registration(range);
  registered_bytes_ += range.size_bytes;
  rest_after(std::chrono::steady_clock::now() - begun);
  return {};
}

// A hundredth of the time, at least as long as a woken thread needs to run; not after each of many
// short calls.
void chunked_registration::rest_after(std::chrono::nanoseconds taken) {
  constexpr std::chrono::microseconds rest_min{50};
  constexpr std::chrono::milliseconds busy_max{2};
  busy_ += taken;
  busy_since_rest_ += taken;
  if (busy_since_rest_ >= busy_max && registered_bytes_ < state_.mapped.size_bytes) {
    std::this_thread::sleep_for(std::max<std::chrono::nanoseconds>(rest_min, taken / 100));
    busy_since_rest_ = std::chrono::nanoseconds(0);
  }
}

}  // namespace numapool::memory
