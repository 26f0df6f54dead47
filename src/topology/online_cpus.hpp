// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which CPUs are online, by the best source that there is.

#include <optional>

#include <numapool/node.hpp>

#include "topology/kernel_files.hpp"

namespace numapool {

/// cpu/online; where it is missing, each CPU's own `online` file; where there are no such folders,
/// /proc/stat. Empty when none of them says anything.
[[nodiscard]] std::optional<cpu_set> read_online_cpus(const kernel_files& reader);

}  // namespace numapool
