// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this process may use.

#include <optional>

#include <numapool/node.hpp>

#include "platform/platform.hpp"
#include "topology/kernel_files.hpp"

namespace numapool {

/// Empty: nobody says, and so nothing is forbidden.
struct allowed_sets {
  std::optional<cpu_set> cpus;
  std::optional<node_set> nodes;
};

/// The affinity of the main thread and Mems_allowed, cut by the cpuset cgroup. `threads` is null
/// for a recorded machine: its own /proc/self/status is believed then. A cgroup that leaves nothing
/// contradicts the kernel's own word, or has been misunderstood: it is passed over with a warning.
[[nodiscard]] allowed_sets read_allowed(const platform::files& files, const platform::threads* threads,
                                        const kernel_files& reader);

}  // namespace numapool
