// SPDX-License-Identifier: Apache-2.0
#include "device/node_sources.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "device/nvidia_smi.hpp"

namespace numapool::device {
namespace {

/// A node by number, if this machine has it: a container may hide the nodes and still show the
/// functions' numbers.
std::optional<node_id> known_node(const topology& nodes, std::uint64_t number,
                                  const std::string& who, std::string& reason) {
  const bool is_id = number <= node_set::id_max;
  const node_id node = is_id ? node_id(static_cast<std::uint32_t>(number)) : node_id();
  if (is_id && nodes.find(node) != nullptr) {
    return node;
  }
  add_clause(reason,
             who + " names node " + std::to_string(number) + ", which this process is not shown");
  return std::nullopt;
}

std::optional<node_id> ask_memory_affinity(const topology& nodes,
                                           const platform::nvml_device& device,
                                           std::string& reason) {
  if (device.memory_nodes.size() == 1) {
    return known_node(nodes, device.memory_nodes.front().value(), "NVML", reason);
  }
  add_clause(reason, device.memory_nodes.empty()
                         ? "NVML names no node"
                         : "NVML names the nodes " + device.memory_nodes.to_list());
  return std::nullopt;
}

}  // namespace

void add_clause(std::string& reason, const std::string& clause) {
  reason += (reason.empty() ? "" : "; ") + clause;
}

std::optional<node_id> only_node_of(const topology& nodes, const cpu_set& cpus) {
  if (nodes.cpu_node_count() < 2) {
    return std::nullopt;
  }
  std::optional<node_id> only;
  for (const node_info& node : nodes.nodes()) {
    if (!node.cpus.intersects(cpus)) {
      continue;
    }
    if (only) {
      return std::nullopt;
    }
    only = node.id;
  }
  return only;
}

std::optional<node_id> ask_sysfs(const platform::files& files, const topology& nodes,
                                 const std::string& folder, std::string& reason) {
  const auto text = read_attribute(files, folder + "/numa_node");
  if (!text) {
    add_clause(reason, "sysfs has no numa_node");
    return std::nullopt;
  }
  const auto number = base::parse_unsigned(*text);
  if (!number) {
    add_clause(reason, "sysfs: numa_node is " + base::quoted(*text));  // '-1': not known
    return std::nullopt;
  }
  return known_node(nodes, *number, "sysfs", reason);
}

std::optional<node_id> ask_local_cpulist(const platform::files& files, const topology& nodes,
                                         const std::string& folder, std::string& reason) {
  const auto text = read_attribute(files, folder + "/local_cpulist");
  boost::system::error_code error;
  const cpu_set cpus = cpu_set::parse_list(text.value_or(""), error);
  const auto node = error ? std::nullopt : only_node_of(nodes, cpus);
  if (!node && nodes.cpu_node_count() > 1) {
    add_clause(reason, "its local_cpulist " + (text ? "is " + base::quoted(*text) : "is missing"));
  }
  return node;
}

std::optional<node_id> ask_nvml_affinity(const device_sources& sources, const pci_address& address,
                                         std::string& reason) {
  if (sources.nvml == nullptr) {
    return std::nullopt;
  }
  std::string why;
  const auto devices = ask_nvml(sources, why);
  const auto* const device = devices ? find_nvml_device(*devices, address) : nullptr;
  if (device == nullptr) {
    add_clause(reason, devices ? "NVML does not know the device" : why);
    return std::nullopt;
  }
  if (const auto node = ask_memory_affinity(sources.nodes, *device, reason)) {
    return node;
  }
  // Grace: the memory affinity has the GPU's own nodes beside the host's (vllm#39361).
  return only_node_of(sources.nodes, device->cpus);
}

std::optional<node_id> ask_cuda_attribute(const device_sources& sources,
                                          const device_question& question, std::string& reason) {
  std::vector<platform::initialized_device> devices;
  if (sources.registrar == nullptr || sources.registrar->initialized_devices(devices)) {
    return std::nullopt;  // the usual state, and no fault of anything
  }
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const bool is_it = question.address
                           ? address_of_name(devices[index].pci_address) == question.address
                           : question.ordinal == static_cast<int>(index);
    if (is_it && devices[index].host_node >= 0) {
      return known_node(sources.nodes, static_cast<std::uint64_t>(devices[index].host_node), "CUDA",
                        reason);
    }
  }
  add_clause(reason, "CUDA names no node");
  return std::nullopt;
}

std::optional<node_id> ask_nvidia_smi_node(const device_sources& sources,
                                           const device_question& question,
                                           std::chrono::milliseconds time, std::string& reason) {
  const std::string id = question.address ? to_string(*question.address) : question.uuid;
  if (sources.programs == nullptr || time.count() <= 0 || id.empty()) {
    return std::nullopt;
  }
  const nvidia_smi_answer answer = ask_nvidia_smi(*sources.programs, sources.cache, id, time);
  if (!answer.node) {
    add_clause(reason, "nvidia-smi: " + answer.reason);
    return std::nullopt;
  }
  return known_node(sources.nodes, answer.node->value(), "nvidia-smi", reason);
}

std::optional<node_id> only_node(const topology& nodes) {
  if (nodes.node_count() == 1) {
    return nodes.nodes().front().id;
  }
  if (nodes.cpu_node_count() != 1) {
    return std::nullopt;
  }
  const auto found = std::find_if(nodes.nodes().begin(), nodes.nodes().end(),
                                  [](const node_info& node) { return !node.cpus.empty(); });
  return found->id;  // of a GH200's nine nodes one has CPUs
}

}  // namespace numapool::device
