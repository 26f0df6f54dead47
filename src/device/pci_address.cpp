// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <optional>
#include <ostream>
#include <vector>

#include <numapool/device.hpp>
#include <numapool/error.hpp>

#include "base/failures.hpp"
#include "base/text.hpp"

namespace numapool {
namespace {

/// A hexadecimal number of at most `digits_max` digits that is at most `largest`.
std::optional<std::uint32_t> read_part(std::string_view text, std::size_t digits_max,
                                       std::uint32_t largest) {
  const std::optional<std::uint64_t> number = base::parse_unsigned(text, 16);
  if (!number || text.size() > digits_max || *number > largest) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

/// [domain:]bus:device[.function]
std::optional<pci_address> read_address(std::string_view text) {
  std::vector<std::string_view> parts = base::split(base::trimmed(text), ':');
  if (parts.size() == 2) {
    parts.insert(parts.begin(), "0");
  }
  if (parts.size() != 3) {
    return std::nullopt;
  }
  const std::size_t dot = parts[2].find('.');
  const std::string_view function_text =
      dot == std::string_view::npos ? "0" : parts[2].substr(dot + 1);
  const auto domain = read_part(parts[0], 8, UINT32_MAX);
  const auto bus = read_part(parts[1], 2, 0xff);
  const auto device = read_part(parts[2].substr(0, dot), 2, 31);
  const auto function = read_part(function_text, 1, 7);
  if (!domain || !bus || !device || !function) {
    return std::nullopt;
  }
  return pci_address{*domain, static_cast<std::uint8_t>(*bus), static_cast<std::uint8_t>(*device),
                     static_cast<std::uint8_t>(*function)};
}

}  // namespace

pci_address pci_address::parse(std::string_view text) {
  if (const std::optional<pci_address> address = read_address(text)) {
    return *address;
  }
  base::raise(base::make_failure(
      errc::malformed_list, operation::parse,
      base::quoted(text) + " is not a PCI address: write it as \"0000:3b:00.0\""));
}

pci_address pci_address::parse(std::string_view text, boost::system::error_code& error) {
  const std::optional<pci_address> address = read_address(text);
  error = address ? boost::system::error_code{} : make_error_code(errc::malformed_list);
  return address.value_or(pci_address{});
}

std::string to_string(const pci_address& address) {
  std::array<char, 20> text{};  // 8 digits and ":ff:1f.7"
  const int length =
      std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", address.domain,
                    static_cast<unsigned>(address.bus), static_cast<unsigned>(address.device),
                    static_cast<unsigned>(address.function));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::ostream& operator<<(std::ostream& stream, const pci_address& address) {
  return stream << to_string(address);
}

}  // namespace numapool
