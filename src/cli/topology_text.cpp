// SPDX-License-Identifier: Apache-2.0
#include "cli/quantity.hpp"
#include "cli/text_table.hpp"
#include "cli/topology_facts.hpp"

namespace numapool::cli {

namespace {

constexpr std::size_t list_width = 28;  // of a CPU list in its column; longer ones take several lines

std::string listed(const std::string& list) {
  return list.empty() ? "none" : join_lines(wrap_list(list, list_width));
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string summary(const topology_facts& machine) {
  std::string text = counted(machine.nodes.size(), "node") + ", " + std::to_string(machine.cpu_nodes) + " with CPUs; " +
                     counted(machine.online_cpus.size(), "CPU") + " online\n";
  text +=
      "this process may use " + counted(machine.allowed_cpus.size(), "CPU") + " and " + usable_memory(machine) + "\n";
  if (machine.cpu_quota) {
    text += "its cgroups allow the time of " + format_fixed(*machine.cpu_quota, 2) + " CPUs\n";
  }
  if (machine.source == topology_source::synthetic) {
    text += "the kernel lists no nodes: node 0 stands for the whole machine\n";
  }
  return text;
}

// Of a machine whose CPUs are all usable, the second list would only repeat the first.
std::string usable_cell(const node_info& node) {
  const bool all = !node.cpus.empty() && node.usable_cpus == node.cpus;
  return all ? "all" : listed(node.usable_cpus.to_list());
}

std::string kind_cell(const node_info& node) {
  std::string kind(name(node.kind));
  return node.gpu_pci_address ? kind + "\nGPU " + *node.gpu_pci_address : kind;
}

std::string memory_cell(const node_info& node) {
  if (node.memory_bytes == 0) {
    return "-";
  }
  const std::string size = format_bytes(node.memory_bytes);
  return node.allowed_memory ? size : size + "\nnot allowed";
}

std::string huge_pages_cell(const node_info& node) {
  std::vector<std::string> lines;
  for (const huge_page_pool& pool : node.huge_pages) {
    lines.push_back(format_bytes(pool.page_size_bytes) + ": " + std::to_string(pool.free_pages) + " of " +
                    std::to_string(pool.total_pages));
  }
  return lines.empty() ? "-" : join_lines(lines);
}

std::string node_table(const topology_facts& machine) {
  text_table table;
  table.add_column("node", align::right);
  table.add_column("kind", align::left);
  table.add_column("CPUs", align::left);
  table.add_column("usable CPUs", align::left);
  table.add_column("memory", align::right);
  table.add_column("free", align::right);
  table.add_column("huge pages free", align::left);
  for (const node_info& node : machine.nodes) {
    table.add_row({std::to_string(node.id.value()), kind_cell(node), listed(node.cpus.to_list()), usable_cell(node),
                   memory_cell(node), node.memory_bytes == 0 ? "-" : format_bytes(node.free_bytes),
                   huge_pages_cell(node)});
  }
  return table.to_text();
}

std::string distance_table(const topology_facts& machine) {
  text_table table;
  table.add_column("from\\to", align::right);
  for (const node_info& node : machine.nodes) {
    table.add_column(std::to_string(node.id.value()), align::right);
  }
  for (const node_info& from : machine.nodes) {
    std::vector<std::string> cells{std::to_string(from.id.value())};
    for (const node_info& to : machine.nodes) {
      const auto distance = distance_to(from, to.id);
      cells.push_back(distance ? std::to_string(*distance) : "-");
    }
    table.add_row(std::move(cells));
  }
  return table.to_text();
}

}  // namespace

std::string topology_text(const topology_facts& machine) {
  std::string text = summary(machine) + "\n" + node_table(machine);
  text += "\ndistances (10 is local)\n" + distance_table(machine);
  if (!machine.warnings.empty()) {
    text += "\nwarnings\n";
    for (const std::string& warning : machine.warnings) {
      text += "  " + warning + "\n";
    }
  }
  return text;
}

}  // namespace numapool::cli
