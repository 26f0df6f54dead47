// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cli/devices_facts.hpp"

namespace numapool::cli {

namespace {

using json = nlohmann::ordered_json;

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json node_or_null(node_id node) {
  return node.is_unknown() ? json(nullptr) : json(node.value());
}

json device_json(const device_facts& facts) {
  json device;
  device["ordinal"] = facts.where.ordinal ? json(*facts.where.ordinal) : json(nullptr);
  device["name"] = text_or_null(facts.device.name);
  device["pci_address"] = to_string(facts.device.address);
  device["uuid"] = text_or_null(facts.device.uuid);
  device["node"] = node_or_null(facts.where.node);
  device["node_source"] = name(facts.where.source);
  if (!facts.where.reported_node.is_unknown()) {
    device["reported_node"] = facts.where.reported_node.value();
  }
  device["cpus"] = text_or_null(facts.cpus);
  device["cpu_slice"] = text_or_null(facts.slice);
  device["memory_node"] = node_or_null(facts.memory_node.value_or(node_id::unknown));
  device["pci_root"] = text_or_null(facts.neighbours.root);
  device["network_interfaces"] = facts.neighbours.network_interfaces;
  device["reason"] = text_or_null(facts.where.reason);
  return device;
}

json visible_json(const visible_device& seen, std::size_t ordinal) {
  json device;
  device["ordinal"] = ordinal;
  device["pci_address"] = seen.address ? json(to_string(*seen.address)) : json(nullptr);
  device["uuid"] = text_or_null(seen.uuid);
  device["reason"] = text_or_null(seen.reason);
  return device;
}

}  // namespace

json devices_json(const devices_facts& machine) {
  json devices = json::array();
  for (const device_facts& facts : machine.devices) {
    devices.push_back(device_json(facts));
  }
  json visible = json::array();
  for (const visible_device& seen : machine.visible) {
    visible.push_back(visible_json(seen, visible.size()));
  }
  json document;
  document["devices"] = std::move(devices);
  document["visible_devices"] = std::move(visible);
  return document;
}

}  // namespace numapool::cli
