// SPDX-License-Identifier: Apache-2.0
#pragma once

// The chain of sources that says on which node a device is. Each answers or leaves a clause of why
// not; the first answer counts, since a lesser source can only contradict it.

#include <optional>
#include <string>
#include <string_view>

#include <numapool/device.hpp>

#include "device/device_sources.hpp"

namespace numapool::device {

/// What is known of the device that is looked for.
struct device_question {
  std::optional<pci_address> address;
  std::string uuid;  // "GPU-..." in full; asked only where there is no address
  std::optional<int> ordinal;
};

/// The node of a device, mapped to the nearest that this process may compute on.
[[nodiscard]] device_location locate(const device_sources& sources, const device_question& question,
                                     const device_options& options);

struct ordinal_location {
  device_location where;
  bool is_shown = false;            // something says that the device exists, if not where
  boost::system::error_code error;  // what CUDA answered, if it was asked and could not say
};

/// The device that this process sees as `ordinal`. One that it certainly does not see has neither
/// address nor node.
[[nodiscard]] ordinal_location locate_ordinal(const device_sources& sources, int ordinal,
                                              const device_options& options);

/// The device at an address, with the ordinal that this process sees it as, if it does.
[[nodiscard]] device_location locate_address(const device_sources& sources,
                                             const pci_address& address,
                                             const device_options& options);

/// The device that a person names. Throws errc::unknown_device as the public form does.
[[nodiscard]] device_location locate_named(const device_sources& sources, std::string_view text,
                                           const device_options& options);

/// What the kernel's files and the topology say, the same in every process: sysfs, local_cpulist,
/// single node. Not mapped. Adds why not to `reason`.
[[nodiscard]] std::optional<found_node> find_kernel_node(const platform::files& files,
                                                         const topology& nodes,
                                                         const pci_address& address,
                                                         std::string& reason);

}  // namespace numapool::device
