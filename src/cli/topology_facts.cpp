// SPDX-License-Identifier: Apache-2.0
#include "cli/topology_facts.hpp"

namespace numapool::cli {

topology_facts facts_of(const topology& machine) {
  topology_facts facts;
  facts.nodes.assign(machine.nodes().begin(), machine.nodes().end());
  facts.online_cpus = machine.online_cpus();
  facts.allowed_cpus = machine.allowed_cpus();
  facts.allowed_nodes = machine.allowed_nodes();
  facts.cpu_nodes = machine.cpu_node_count();
  facts.single_node = machine.is_single_node();
  facts.cpu_quota = machine.cpu_quota();
  facts.source = machine.source();
  facts.warnings.assign(machine.warnings().begin(), machine.warnings().end());
  return facts;
}

std::optional<std::uint32_t> distance_to(const node_info& from, node_id to) noexcept {
  for (const node_distance& entry : from.distances) {
    if (entry.to == to) {
      return entry.distance;
    }
  }
  return std::nullopt;
}

std::string usable_memory(const topology_facts& machine) {
  const node_set& nodes = machine.allowed_nodes;
  if (nodes.empty()) {
    return "no memory";
  }
  return "the memory of node" + std::string(nodes.size() == 1 ? " " : "s ") + nodes.to_list();
}

}  // namespace numapool::cli
