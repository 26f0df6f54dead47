// SPDX-License-Identifier: Apache-2.0
#pragma once

// Dividing a node's CPUs among its GPUs, by whole cores: a cut through the middle of "0-15,128-143"
// would give two GPUs the two threads of the same cores.

#include <cstddef>
#include <vector>

#include <numapool/device.hpp>
#include <numapool/node.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"

namespace numapool::device {

/// cpu_slice() of any machine.
[[nodiscard]] cpu_set slice_on(const platform::files& files, const topology& nodes,
                               const pci_address& address);

/// The cores that `cpus` are threads of, by lowest CPU. One whose siblings are not told is a core.
[[nodiscard]] std::vector<cpu_set> read_cores(const platform::files& files, const cpu_set& cpus);

/// The slice of the GPU at `index` of `count`; the first ones get one core more when it does not
/// divide. All of the cores where there are fewer than GPUs.
[[nodiscard]] cpu_set slice_of(const std::vector<cpu_set>& cores, std::size_t index,
                               std::size_t count);

}  // namespace numapool::device
