// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_slices.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <numapool/device.hpp>
#include <numapool/topology.hpp>

#include "device/device_chain.hpp"
#include "device/pci_functions.hpp"

namespace numapool {
namespace device {
namespace {

/// The threads of the CPU's core; `core_cpus_list` since Linux 5.3, the older name before.
cpu_set siblings_of(const platform::files& files, cpu_id cpu) {
  const std::string folder =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpu.value()) + "/topology/";
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    const auto text = read_attribute(files, folder + name);
    boost::system::error_code error;
    cpu_set siblings = cpu_set::parse_list(text.value_or(""), error);
    if (!error && siblings.contains(cpu)) {
      return siblings;
    }
  }
  return {cpu};
}

/// The nearest node with CPUs, whether this process may use them or not.
node_id nearest_cpu_node(const topology& nodes, node_id from) {
  const auto* const own = nodes.cpus_of_node(from);
  if (own == nullptr || !own->empty()) {
    return from;
  }
  node_id best;
  std::uint32_t best_distance = 0;
  for (const node_info& node : nodes.nodes()) {
    const std::uint32_t distance = nodes.distance(from, node.id).value_or(UINT32_MAX);
    if (!node.cpus.empty() && (best.is_unknown() || distance < best_distance)) {
      best = node.id;
      best_distance = distance;
    }
  }
  return best;
}

node_id slice_node(const platform::files& files, const topology& nodes,
                   const pci_address& address) {
  std::string ignored;
  const auto found = find_kernel_node(files, nodes, address, ignored);
  return found ? nearest_cpu_node(nodes, found->node) : node_id::unknown;
}

}  // namespace

cpu_set slice_on(const platform::files& files, const topology& nodes, const pci_address& address) {
  const node_id node = slice_node(files, nodes, address);
  const cpu_set* const cpus = nodes.cpus_of_node(node);
  if (cpus == nullptr) {
    return {};
  }
  std::size_t count = 0;
  std::optional<std::size_t> index;
  for (const gpu_function& gpu : read_gpu_functions(files).gpus) {
    if (slice_node(files, nodes, gpu.address) != node) {
      continue;
    }
    if (gpu.address == address) {
      index = count;
    }
    ++count;
  }
  return index ? slice_of(read_cores(files, *cpus), *index, count) : cpu_set();
}

std::vector<cpu_set> read_cores(const platform::files& files, const cpu_set& cpus) {
  std::vector<cpu_set> cores;
  cpu_set left = cpus;
  for (const cpu_id cpu : cpus) {
    if (left.contains(cpu)) {
      cores.push_back(siblings_of(files, cpu) & left);
      left -= cores.back();
    }
  }
  return cores;
}

cpu_set slice_of(const std::vector<cpu_set>& cores, std::size_t index, std::size_t count) {
  const bool is_shared = cores.size() < count;
  const std::size_t each = is_shared ? cores.size() : cores.size() / count;
  const std::size_t longer = is_shared ? 0 : cores.size() % count;
  const std::size_t first = is_shared ? 0 : index * each + std::min(index, longer);
  const std::size_t last = first + each + (index < longer ? 1 : 0);
  cpu_set slice;
  for (std::size_t core = first; core < last; ++core) {
    slice |= cores[core];
  }
  return slice;
}

}  // namespace device

cpu_set cpu_slice(const pci_address& address, const topology_options& options) {
  const auto files = platform::files_below(options.root);
  if (options.root.empty()) {
    return device::slice_on(*files, *topology::system(), address);
  }
  return device::slice_on(*files, topology::read(options), address);
}

}  // namespace numapool
