// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cli/topology_facts.hpp"

namespace numapool::cli {

namespace {

using json = nlohmann::ordered_json;

json node_json(const node_info& node) {
  json distances = json::object();
  for (const node_distance& entry : node.distances) {
    distances[std::to_string(entry.to.value())] = entry.distance;
  }
  json pools = json::array();
  for (const huge_page_pool& pool : node.huge_pages) {
    json entry;
    entry["size_bytes"] = pool.page_size_bytes;
    entry["total"] = pool.total_pages;
    entry["free"] = pool.free_pages;
    pools.push_back(std::move(entry));
  }
  json facts;
  facts["id"] = node.id;
  facts["kind"] = name(node.kind);
  facts["gpu"] = nullptr;
  if (node.gpu_pci_address) {
    facts["gpu"] = *node.gpu_pci_address;
  }
  facts["cpus"] = node.cpus.to_list();
  facts["usable_cpus"] = node.usable_cpus.to_list();
  facts["memory_bytes"] = node.memory_bytes;
  facts["free_bytes"] = node.free_bytes;
  facts["distances"] = std::move(distances);
  facts["allowed_memory"] = node.allowed_memory;
  facts["hugepages"] = std::move(pools);
  return facts;
}

}  // namespace

json topology_json(const topology_facts& machine) {
  json nodes = json::array();
  for (const node_info& node : machine.nodes) {
    nodes.push_back(node_json(node));
  }
  json document;
  document["nodes"] = std::move(nodes);
  document["online_cpus"] = machine.online_cpus.to_list();
  document["allowed_cpus"] = machine.allowed_cpus.to_list();
  document["allowed_nodes"] = machine.allowed_nodes.to_list();
  document["cpu_nodes"] = machine.cpu_nodes;
  document["single_node"] = machine.single_node;
  document["cpu_quota"] = nullptr;
  if (machine.cpu_quota) {
    document["cpu_quota"] = *machine.cpu_quota;
  }
  document["source"] = name(machine.source);
  document["warnings"] = machine.warnings;
  return document;
}

}  // namespace numapool::cli
