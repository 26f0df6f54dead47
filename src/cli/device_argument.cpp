// SPDX-License-Identifier: Apache-2.0
#include "cli/device_argument.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include <numapool/device.hpp>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"

namespace numapool::cli {

namespace {

constexpr std::uint64_t ordinal_max = 65535;

std::optional<int> ordinal_of(std::string_view text) {
  const bool is_number =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::optional<int>(static_cast<int>(parse_whole(text, 0, ordinal_max)))
                   : std::nullopt;
}

bool is_address(std::string_view text) {
  boost::system::error_code error;
  static_cast<void>(pci_address::parse(text, error));
  return !error;
}

[[noreturn]] void throw_unknown_node(const std::string& device, const device_location& where,
                                     const request& what) {
  failure why;
  why.code = errc::unknown_node;
  why.operation = operation::resolve;
  why.size_bytes = what.size_bytes;
  why.message = "the node of '" + device + "' is not known: " + where.reason + "; write --node N";
  throw error(std::move(why));
}

}  // namespace

std::string read_device(std::string_view text) {
  const bool is_id = text.starts_with("GPU-") || text.starts_with("MIG-");
  if (!is_id && text != "local-rank" && !ordinal_of(text) && !is_address(text)) {
    throw usage_error(
        "'" + std::string(text) +
        "' names no device; write a CUDA ordinal (0, 1, 2, ...), a GPU- or MIG- id or "
        "its beginning, a PCI address (0000:3b:00.0), or local-rank");
  }
  return std::string(text);
}

void ask_for_device(const std::string& device, request& what) {
  what.device = ordinal_of(device);
  if (what.device) {
    return;  // the request finds the rest, and may ask CUDA, which it needs anyway
  }
  const device_location where = locate_device(device, {.allow_heuristic = false});
  what.device = where.ordinal;
  if (what.device) {
    return;
  }
  if (where.node.is_unknown()) {
    throw_unknown_node(device, where, what);
  }
  what.node = where.node;
}

}  // namespace numapool::cli
