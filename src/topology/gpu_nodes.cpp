// SPDX-License-Identifier: Apache-2.0

// Which nodes are GPUs' own memory.

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "topology/node_files.hpp"

namespace numapool {
namespace {

/// The PCI address as sysfs spells it: lower case, and no more digits in the domain than it needs,
/// but at least four.
std::string sysfs_spelling(std::string_view address) {
  constexpr std::size_t shortest_domain = 4;
  std::string spelled = base::lower_case(address);
  const std::size_t domain = spelled.find(':');
  std::size_t zeros = 0;
  while (domain != std::string::npos && zeros + shortest_domain < domain && spelled[zeros] == '0') {
    ++zeros;
  }
  return spelled.substr(zeros);
}

/// A node with CPUs is a host's, whatever a driver says.
void name_node(std::vector<node_info>& nodes, std::uint64_t id, std::string_view gpu) {
  for (node_info& node : nodes) {
    if (node.id.value() == id && node.cpus.empty() && !node.gpu_pci_address) {
      node.gpu_pci_address = sysfs_spelling(gpu);
    }
  }
}

/// What NVIDIA's driver says: "Node:  255"; -1 where the GPU's memory is no node.
void ask_driver(const kernel_files& reader, std::vector<node_info>& nodes) {
  const std::string folder = "/proc/driver/nvidia/gpus";
  for (const std::string& gpu : reader.names_in(folder)) {
    const std::string text = reader.text(folder + "/" + gpu + "/numa_status").value_or("");
    const auto value = kernel_files::value_of(text, "Node:");
    if (const auto id = value ? base::parse_unsigned(*value) : std::nullopt) {
      name_node(nodes, *id, gpu);
    }
  }
}

bool could_be_unnamed_gpu(const node_info& node) {
  return node.kind == node_kind::memory_only && !node.gpu_pci_address;
}

/// NVIDIA's display controllers: 0x0300 with a screen (VGA), 0x0302 without one (3D).
bool is_nvidia_gpu(const kernel_files& reader, const std::string& folder) {
  const std::string vendor = reader.text(folder + "/vendor").value_or("");
  return base::trimmed(vendor) == "0x10de" &&
         base::trimmed(reader.text(folder + "/class").value_or("")).starts_with("0x03");
}

void ask_pci_functions(const kernel_files& reader, std::vector<node_info>& nodes) {
  const std::string folder = "/sys/bus/pci/devices";
  for (const std::string& function : reader.names_in(folder)) {
    if (!is_nvidia_gpu(reader, folder + "/" + function)) {
      continue;
    }
    const std::string text = reader.text(folder + "/" + function + "/numa_node").value_or("");
    const auto id = base::parse_unsigned(base::trimmed(text));  // "-1" is no number: not known
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&id](const node_info& candidate) {
      return id && candidate.id.value() == *id && could_be_unnamed_gpu(candidate);
    });
    if (node != nodes.end()) {
      name_node(nodes, *id, function);
    }
  }
}

}  // namespace

void name_gpu_nodes(const kernel_files& reader, std::vector<node_info>& nodes) {
  ask_driver(reader, nodes);
  // Only then: a machine may have hundreds of PCI functions.
  if (std::any_of(nodes.begin(), nodes.end(), could_be_unnamed_gpu)) {
    ask_pci_functions(reader, nodes);
  }
}

}  // namespace numapool
