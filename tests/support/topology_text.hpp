// SPDX-License-Identifier: Apache-2.0
#pragma once

// A topology as text, fact by fact, so that two compare with a difference that a person can read.

#include <sstream>
#include <string>

#include <numapool/topology.hpp>

namespace numapool::tests {

/// Free memory and free huge pages change from moment to moment on a running machine.
enum class free_memory { shown, left_out };

inline void describe_node(std::ostream& text, const node_info& node, free_memory free) {
  text << "node " << node.id.value() << ' ' << name(node.kind) << " cpus=" << node.cpus.to_list()
       << " usable=" << node.usable_cpus.to_list() << " memory=" << node.memory_bytes
       << " allowed=" << node.allowed_memory << " gpu=" << node.gpu_pci_address.value_or("-");
  if (free == free_memory::shown) {
    text << " free=" << node.free_bytes;
  }
  for (const node_distance& distance : node.distances) {
    text << " distance[" << distance.to.value() << "]=" << distance.distance;
  }
  for (const huge_page_pool& pool : node.huge_pages) {
    text << " pages[" << pool.page_size_bytes << "]=" << pool.total_pages;
    if (free == free_memory::shown) {
      text << '/' << pool.free_pages;
    }
  }
  text << '\n';
}

inline std::string describe(const topology& machine, free_memory free = free_memory::shown) {
  std::ostringstream text;
  text << name(machine.source()) << " online=" << machine.online_cpus().to_list()
       << " allowed=" << machine.allowed_cpus().to_list() << " nodes=" << machine.allowed_nodes().to_list()
       << " quota=" << machine.cpu_quota().value_or(-1) << '\n';
  for (const node_info& node : machine.nodes()) {
    describe_node(text, node, free);
  }
  for (const std::string& warning : machine.warnings()) {
    text << "warning: " << warning << '\n';
  }
  return text.str();
}

}  // namespace numapool::tests
