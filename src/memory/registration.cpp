// SPDX-License-Identifier: Apache-2.0
#include "memory/registration.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <string>

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

failure register_all(buffer_state& state, int device, std::size_t chunk_bytes) {
  const std::size_t size = state.mapped.size_bytes;
  NUMAPOOL_CHECK(chunk_bytes > 0 && state.registrations.empty());
  state.registrations.reserve((size + chunk_bytes - 1) / chunk_bytes);
  state.registered_device = device;
  for (std::size_t offset = 0; offset < size; offset += chunk_bytes) {
    registration range{offset, std::min(chunk_bytes, size - offset), nullptr};
    const auto cause = state.machine->registrar.register_range(
        device, state.mapped.data + offset, range.size_bytes, &range.device_pointer);
    if (cause) {
      static_cast<void>(state.unregister_all());
      return {errc::registration_failed,
              operation::pin,
              state.node_requested,
              range.size_bytes,
              cause,
              "CUDA device " + std::to_string(device) + " refused to register " +
                  std::to_string(range.size_bytes) + " bytes: " + cause.message() +
                  "; smaller chunks may pass, and a pin by mlock needs no CUDA"};
    }
    state.add_registration(range);
  }
  return {};
}

}  // namespace numapool::memory
