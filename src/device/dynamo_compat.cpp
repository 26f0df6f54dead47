// SPDX-License-Identifier: Apache-2.0
#include "device/dynamo_compat.hpp"

#include <cstdlib>
#include <vector>

#include <numapool/device.hpp>
#include <numapool/environment.hpp>

#include "base/text.hpp"
#include "device/nvidia_smi.hpp"
#include "platform/platform.hpp"

namespace numapool {
namespace device {
namespace {

/// What Rust's str::trim takes off, of ASCII.
std::string_view rust_trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The text between the first line's first two colons, as a number of 32 bits; Rust allows a plus.
node_id read_answer(std::string_view output) {
  const std::vector<std::string_view> parts = base::split(output.substr(0, output.find('\n')), ':');
  if (parts.size() < 2) {
    return node_id::unknown;
  }
  std::string_view digits = rust_trimmed(parts[1]);
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
  }
  const auto number = base::parse_unsigned(digits);
  return number && *number <= UINT32_MAX ? node_id(static_cast<std::uint32_t>(*number))
                                         : node_id::unknown;
}

std::optional<std::string_view> visible_text() {
  const char* const text = std::getenv(environment::visible_devices);
  return text != nullptr ? std::optional<std::string_view>(text) : std::nullopt;
}

}  // namespace

std::string dynamo_id_of(std::optional<std::string_view> visible, std::uint32_t ordinal) {
  std::uint32_t position = 0;
  for (const std::string_view part : base::split(visible.value_or(""), ',')) {
    const std::string_view entry = rust_trimmed(part);
    if (!entry.empty() && position++ == ordinal) {
      return std::string(entry);
    }
  }
  return std::to_string(ordinal);
}

node_id dynamo_node_of(platform::programs* programs, std::optional<std::string_view> visible,
                       std::uint32_t ordinal) {
  platform::program_answer answer;
  const bool has_answer =
      programs != nullptr &&
      !programs->run(nvidia_smi_command(dynamo_id_of(visible, ordinal)), {}, answer) &&
      !answer.is_timed_out && answer.exit_status == 0;
  return has_answer ? read_answer(answer.output) : node_id(ordinal % 2);
}

}  // namespace device

std::string dynamo_nvidia_smi_id(std::uint32_t ordinal) {
  return device::dynamo_id_of(device::visible_text(), ordinal);
}

node_id dynamo_device_node(std::uint32_t ordinal) {
  return device::dynamo_node_of(platform::this_machine().programs, device::visible_text(), ordinal);
}

}  // namespace numapool
