// SPDX-License-Identifier: Apache-2.0
#pragma once

// A GPU's identity (its PCI address) and the node it is on, with the source that answered.
// Threads: values and free functions; safe.

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <boost/system/error_code.hpp>

#include <numapool/node.hpp>

namespace numapool {

/// A PCI address, compared as numbers: NVIDIA prints domains of 8 digits where sysfs has 4, and
/// either case.
struct pci_address {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;    // 0..31
  std::uint8_t function = 0;  // 0..7

  /// Reads "0000:3b:00.0", "00000000:3B:00.0" or "3b:00.0" (domain 0), spaces around it allowed; a
  /// missing function is 0.
  /// Errors: errc::malformed_list naming the text; the second form returns the zero address with
  /// `error` set.
  [[nodiscard]] static pci_address parse(std::string_view text);
  [[nodiscard]] static pci_address parse(std::string_view text, boost::system::error_code& error);

  auto operator<=>(const pci_address&) const noexcept = default;
};
/// "0000:3b:00.0": the domain in at least four digits, lower case, as sysfs names its folders.
[[nodiscard]] std::string to_string(const pci_address& address);
std::ostream& operator<<(std::ostream& stream, const pci_address& address);

/// What said on which node a device is.
enum class node_source : std::uint8_t { unknown, sysfs, single_node };
[[nodiscard]] std::string_view name(node_source source) noexcept;

struct device_node {
  node_id node;  ///< unknown when nothing says so: -1 in sysfs is not node 0
  node_source source = node_source::unknown;
};

/// The node of the PCI device as the kernel's `numa_node` file says, else the only node of a
/// one-node machine. Never initialises CUDA. Cost: one small file read a call.
[[nodiscard]] device_node node_of_pci_device(const pci_address& address) noexcept;

}  // namespace numapool
