// SPDX-License-Identifier: Apache-2.0
#include "cli/devices_facts.hpp"

namespace numapool::cli {

namespace {

std::optional<node_id> memory_node_of(const topology& nodes, const pci_address& address) {
  for (const node_info& node : nodes.nodes()) {
    boost::system::error_code error;
    if (node.gpu_pci_address && pci_address::parse(*node.gpu_pci_address, error) == address &&
        !error) {
      return node.id;
    }
  }
  return std::nullopt;
}

device_facts facts_of(const host_device& device, const device_location& where,
                      const topology& nodes, const topology_options& options) {
  device_facts facts;
  facts.device = device;
  facts.where = where;
  const cpu_set* const cpus = nodes.cpus_of_node(where.node);
  facts.cpus = cpus != nullptr ? cpus->to_list() : std::string();
  facts.slice = cpu_slice(device.address, options).to_list();
  facts.memory_node = memory_node_of(nodes, device.address);
  facts.neighbours = neighbourhood_of(device.address, options);
  return facts;
}

}  // namespace

devices_facts read_devices(const topology_options& options) {
  devices_facts machine;
  machine.is_this_machine = options.root.empty();
  const topology nodes = topology::read(options);
  if (machine.is_this_machine) {
    machine.visible = visible_devices();
  }
  for (const host_device& device : host_devices(options)) {
    device_location where = machine.is_this_machine ? locate_device(device.address)
                                                    : locate_device(device.address, nodes, options);
    if (!machine.is_this_machine) {
      where.ordinal = static_cast<int>(machine.devices.size());
    }
    machine.devices.push_back(facts_of(device, where, nodes, options));
  }
  return machine;
}

}  // namespace numapool::cli
