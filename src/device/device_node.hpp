// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numapool/device.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"

namespace numapool::device {

/// node_of_pci_device() of any machine.
[[nodiscard]] device_node find_node(const platform::files& files, const topology& nodes,
                                    const pci_address& address);

}  // namespace numapool::device
