// SPDX-License-Identifier: Apache-2.0
#pragma once

// PCI functions as sysfs shows them. A file that cannot be read is an absent fact.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <numapool/device.hpp>

#include "platform/platform.hpp"

namespace numapool::device {

struct gpu_function {
  pci_address address;
  std::string model;  // the PCI device id, "0x2330"; "" where it cannot be read
};

struct gpu_functions {
  std::vector<gpu_function> gpus;  // NVIDIA's, by address
  bool is_listed = false;  // sysfs names PCI functions here, so that a missing one is missing
};

[[nodiscard]] gpu_functions read_gpu_functions(const platform::files& files);

/// "/sys/bus/pci/devices/0000:3b:00.0": the folder that exists, however many digits it gives the
/// domain; empty when there is none.
[[nodiscard]] std::optional<std::string> find_pci_folder(const platform::files& files,
                                                         const pci_address& address);

/// The file's text without blanks at both ends; empty when it cannot be read.
[[nodiscard]] std::optional<std::string> read_attribute(const platform::files& files,
                                                        const std::string& path);

[[nodiscard]] std::string path_in(const std::string& folder, const std::string& name);

/// The address that a folder's name is; empty for other names.
[[nodiscard]] std::optional<pci_address> address_of_name(std::string_view name);

}  // namespace numapool::device
