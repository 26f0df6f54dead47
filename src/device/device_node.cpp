// SPDX-License-Identifier: Apache-2.0
#include "device/device_node.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "platform/platform.hpp"

namespace numapool {

std::string_view name(node_source source) noexcept {
  switch (source) {
    case node_source::sysfs:
      return "sysfs";
    case node_source::single_node:
      return "single-node";
    case node_source::unknown:
      break;
  }
  return "unknown";
}

namespace {

/// What the kernel's numa_node file says; unset when it says nothing or -1.
device_node node_in_sysfs(const platform::files& files, const pci_address& address) {
  std::string text;
  if (files.read_text("/sys/bus/pci/devices/" + to_string(address) + "/numa_node", text)) {
    return {};
  }
  const std::optional<std::uint64_t> node = base::parse_unsigned(base::trimmed(text));
  if (!node || *node > node_set::id_max) {
    return {};  // "-1": the firmware does not say
  }
  return {node_id(static_cast<std::uint32_t>(*node)), node_source::sysfs};
}

/// The only node with CPUs, or the only node; unset where there are more.
device_node only_node(const topology& nodes) {
  if (nodes.node_count() == 1) {
    return {nodes.nodes().front().id, node_source::single_node};
  }
  if (nodes.cpu_node_count() != 1) {
    return {};
  }
  const auto has_cpus = [](const node_info& node) {
    return !node.cpus.empty();
  };
  const auto found = std::find_if(nodes.nodes().begin(), nodes.nodes().end(), has_cpus);
  return {found->id, node_source::single_node};  // of a GH200's nine nodes one has CPUs
}

}  // namespace

device_node device::find_node(const platform::files& files, const topology& nodes,
                              const pci_address& address) {
  const device_node answer = node_in_sysfs(files, address);
  return answer.source != node_source::unknown ? answer : only_node(nodes);
}

device_node node_of_pci_device(const pci_address& address) noexcept {
  try {
    return device::find_node(platform::this_machine().files, *topology::system(), address);
  } catch (const std::exception&) {
    return {};  // no topology, no memory: not known
  }
}

}  // namespace numapool
