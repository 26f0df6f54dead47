// SPDX-License-Identifier: Apache-2.0
#pragma once

// The single sources of the chain. Each returns a node of this machine, or adds to `reason`.

#include "device/device_chain.hpp"

namespace numapool::device {

/// Joins clauses of one sentence.
void add_clause(std::string& reason, const std::string& clause);

/// The one node among several in which all of `cpus` lie, as far as they are in any.
[[nodiscard]] std::optional<node_id> only_node_of(const topology& nodes, const cpu_set& cpus);

[[nodiscard]] std::optional<node_id> ask_sysfs(const platform::files& files, const topology& nodes,
                                               const std::string& folder, std::string& reason);
[[nodiscard]] std::optional<node_id> ask_local_cpulist(const platform::files& files,
                                                       const topology& nodes,
                                                       const std::string& folder,
                                                       std::string& reason);
[[nodiscard]] std::optional<node_id> ask_nvml_affinity(const device_sources& sources,
                                                       const pci_address& address,
                                                       std::string& reason);
[[nodiscard]] std::optional<node_id> ask_cuda_attribute(const device_sources& sources,
                                                        const device_question& question,
                                                        std::string& reason);
[[nodiscard]] std::optional<node_id> ask_nvidia_smi_node(const device_sources& sources,
                                                         const device_question& question,
                                                         std::chrono::milliseconds time,
                                                         std::string& reason);
[[nodiscard]] std::optional<node_id> only_node(const topology& nodes);

}  // namespace numapool::device
