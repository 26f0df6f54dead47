// SPDX-License-Identifier: Apache-2.0
#include "cli/devices_facts.hpp"
#include "cli/text_table.hpp"

namespace numapool::cli {

namespace {

constexpr std::size_t list_width =
    28;  // of a CPU list in its column; longer ones take several lines

std::string listed(const std::string& list) {
  return list.empty() ? "-" : join_lines(wrap_list(list, list_width));
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string node_cell(const device_location& where) {
  std::string cell = where.node.is_unknown() ? "unknown" : std::to_string(where.node.value());
  if (!where.reported_node.is_unknown()) {
    cell += "\nfor " + std::to_string(where.reported_node.value());
  }
  return cell;
}

std::string network_cell(const pci_neighbourhood& neighbours) {
  return neighbours.network_interfaces.empty() ? "-" : join_lines(neighbours.network_interfaces);
}

std::string device_table(const devices_facts& machine) {
  text_table table;
  table.add_column("ordinal", align::right);
  table.add_column("PCI address", align::left);
  table.add_column("name", align::left);
  table.add_column("node", align::right);
  table.add_column("said by", align::left);
  table.add_column("CPUs of the node", align::left);
  table.add_column("CPU slice", align::left);
  table.add_column("network of its PCI root", align::left);
  for (const device_facts& facts : machine.devices) {
    const device_location& where = facts.where;
    table.add_row({where.ordinal ? std::to_string(*where.ordinal) : "-",
                   to_string(facts.device.address), or_dash(facts.device.name), node_cell(where),
                   std::string(name(where.source)), listed(facts.cpus), listed(facts.slice),
                   network_cell(facts.neighbours)});
  }
  return table.to_text();
}

std::string remarks(const devices_facts& machine) {
  std::string text;
  for (const device_facts& facts : machine.devices) {
    const std::string address = to_string(facts.device.address);
    if (!facts.where.reason.empty()) {
      text += "  " + address + ": " + facts.where.reason + "\n";
    }
    if (facts.memory_node) {
      text += "  " + address + ": node " + std::to_string(facts.memory_node->value()) +
              " is its own memory\n";
    }
  }
  for (std::size_t ordinal = 0; ordinal < machine.visible.size(); ++ordinal) {
    const visible_device& seen = machine.visible[ordinal];
    if (!seen.address) {
      text += "  ordinal " + std::to_string(ordinal) + ": " + seen.reason + "\n";
    }
  }
  return text;
}

}  // namespace

std::string devices_text(const devices_facts& machine) {
  std::string text;
  if (machine.devices.empty()) {
    text = machine.is_this_machine ? "neither sysfs nor NVML lists an NVIDIA GPU here\n"
                                   : "the recording lists no NVIDIA GPU\n";
  } else {
    text = device_table(machine);
  }
  const std::string said = remarks(machine);
  return said.empty() ? text : text + "\nremarks\n" + said;
}

}  // namespace numapool::cli
