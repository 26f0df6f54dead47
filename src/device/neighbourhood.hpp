// SPDX-License-Identifier: Apache-2.0
#pragma once

// neighbourhood_of() of any machine.

#include <numapool/device.hpp>

#include "platform/platform.hpp"

namespace numapool::device {

[[nodiscard]] pci_neighbourhood neighbours_on(const platform::files& files,
                                              const pci_address& address);

}  // namespace numapool::device
