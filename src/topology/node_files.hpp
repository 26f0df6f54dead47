// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernel's files say of each NUMA node.

#include <optional>
#include <vector>

#include <numapool/node.hpp>
#include <numapool/topology.hpp>

#include "topology/kernel_files.hpp"

namespace numapool {

struct listed_nodes {
  std::vector<node_info> nodes;  // by ascending id
  node_set without_memory;       // of those, the ones that say so; one that does not say may have memory
};

/// The nodes that have a directory. `online` cuts their CPU lists, where it is known. What is
/// allowed and whose memory a node is are left to others.
[[nodiscard]] listed_nodes read_nodes(const kernel_files& reader, const std::optional<cpu_set>& online);

/// Node 0 for a machine without node directories: these CPUs and the machine's memory.
[[nodiscard]] node_info make_synthetic_node(const kernel_files& reader, const cpu_set& cpus);

/// Finds the nodes that are GPUs' own memory and sets their gpu_pci_address. NVIDIA's driver names
/// them in /proc/driver/nvidia/gpus; else a node with memory and no CPUs is a GPU's when its PCI
/// function says that it is there.
void name_gpu_nodes(const kernel_files& reader, std::vector<node_info>& nodes);

}  // namespace numapool
