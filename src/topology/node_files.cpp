// SPDX-License-Identifier: Apache-2.0
#include "topology/node_files.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace numapool {
namespace {

constexpr const char* node_folder = "/sys/devices/system/node";

std::string folder_of(node_id node) {
  return std::string(node_folder) + "/node" + std::to_string(node.value());
}

cpu_set read_cpus(const kernel_files& reader, const std::string& folder,
                  const std::optional<cpu_set>& online) {
  std::optional<cpu_set> cpus = reader.cpu_list(folder + "/cpulist");
  if (!cpus) {
    cpus = reader.cpu_mask(folder + "/cpumap");
  }
  if (!cpus) {
    reader.warn("The CPUs of " + folder + " are not known: it has no cpulist or cpumap to read.");
    return {};
  }
  return online ? *cpus & *online : *cpus;
}

/// "Node 0 MemTotal:  16775084 kB" and "MemTotal:  16775084 kB": the number after the key, in
/// bytes.
std::optional<std::uint64_t> bytes_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(at + key.size());
  const std::vector<std::string_view> fields = base::fields_of(rest.substr(0, rest.find('\n')));
  const auto kilobytes = fields.empty() ? std::nullopt : base::parse_unsigned(fields.front());
  constexpr std::uint64_t kilobyte = 1024;
  if (!kilobytes || *kilobytes > UINT64_MAX / kilobyte) {
    return std::nullopt;
  }
  return *kilobytes * kilobyte;
}

/// False when the file says that there is no memory.
bool read_memory(const kernel_files& reader, const std::string& path, node_info& node) {
  const std::string text = reader.text(path).value_or("");
  const auto total = bytes_after(text, "MemTotal:");
  const auto free = bytes_after(text, "MemFree:");
  if (!total || !free) {
    reader.warn(path + " does not say how much memory there is and how much of it is free.");
  }
  node.memory_bytes = total.value_or(0);
  node.free_bytes = free.value_or(0);
  return !total || *total != 0;
}

/// One folder for each size: hugepages-2048kB.
void read_huge_pages(const kernel_files& reader, const std::string& folder, node_info& node) {
  for (const std::string& name : reader.names_in(folder)) {
    std::string_view size = name;
    if (!size.ends_with("kB")) {
      continue;
    }
    size.remove_suffix(2);
    const auto kilobytes = base::number_after("hugepages-", size);
    const std::string pool = base::join_path(folder, name);
    const auto total = reader.number(base::join_path(pool, "nr_hugepages"));
    const auto free = reader.number(base::join_path(pool, "free_hugepages"));
    if (kilobytes && total && free) {
      node.huge_pages.push_back({std::size_t{*kilobytes} * 1024, *total, *free});
    }
  }
  std::sort(node.huge_pages.begin(), node.huge_pages.end(),
            [](const huge_page_pool& a, const huge_page_pool& b) {
              return a.page_size_bytes < b.page_size_bytes;
            });
}

std::optional<std::vector<std::uint32_t>> parse_distances(std::string_view text) {
  std::vector<std::uint32_t> row;
  for (std::string_view field : base::fields_of(text)) {
    const auto number = base::parse_unsigned(field);
    if (!number || *number > UINT32_MAX) {
      return std::nullopt;
    }
    row.push_back(static_cast<std::uint32_t>(*number));
  }
  return row;
}

/// The file has a column for each online node, by ascending id, and does not name them. Those are
/// the nodes that have a directory; where the counts differ the kernel's own list of online nodes
/// is tried.
void read_distances(const kernel_files& reader, const node_set& listed,
                    const std::optional<node_set>& online, node_info& node) {
  const std::string path = folder_of(node.id) + "/distance";
  const std::optional<std::string> text = reader.text(path);
  if (!text) {
    return;  // old kernels and some architectures have none
  }
  const auto row = parse_distances(*text);
  const node_set* columns = &listed;
  if (row && row->size() != listed.size() && online) {
    columns = &*online;
  }
  if (!row || row->size() != columns->size()) {
    reader.warn(path + " does not fit the nodes " + listed.to_list() + ": " +
                base::quoted(base::trimmed(*text)) + ".");
    return;
  }
  auto distance = row->begin();
  for (node_id to : *columns) {
    if (listed.contains(to)) {
      node.distances.push_back({to, *distance});
    }
    ++distance;
  }
}

node_kind kind_of(const node_info& node) noexcept {
  if (node.cpus.empty()) {
    return node.memory_bytes == 0 ? node_kind::empty : node_kind::memory_only;
  }
  return node.memory_bytes == 0 ? node_kind::cpu_only : node_kind::cpu_and_memory;
}

}  // namespace

listed_nodes read_nodes(const kernel_files& reader, const std::optional<cpu_set>& online) {
  node_set listed;
  for (std::uint32_t id : reader.numbers_in(node_folder, "node")) {
    listed.insert(node_id(id));
  }
  const std::optional<node_set> online_nodes =
      reader.node_list(std::string(node_folder) + "/online");
  if (!listed.empty() && online_nodes && *online_nodes != listed) {
    reader.warn(std::string(node_folder) + "/online says " + base::quoted(online_nodes->to_list()) +
                ", but the nodes that are there are " + listed.to_list() + ".");
  }
  listed_nodes found;
  for (node_id id : listed) {
    node_info node;
    node.id = id;
    node.cpus = read_cpus(reader, folder_of(id), online);
    if (!read_memory(reader, folder_of(id) + "/meminfo", node)) {
      found.without_memory.insert(id);
    }
    read_huge_pages(reader, folder_of(id) + "/hugepages", node);
    read_distances(reader, listed, online_nodes, node);
    node.kind = kind_of(node);
    found.nodes.push_back(std::move(node));
  }
  return found;
}

node_info make_synthetic_node(const kernel_files& reader, const cpu_set& cpus) {
  constexpr std::uint32_t local_distance = 10;  // by the firmware standard (ACPI SLIT)
  node_info node;
  node.id = node_id(0);
  node.cpus = cpus;
  static_cast<void>(read_memory(reader, "/proc/meminfo", node));
  read_huge_pages(reader, "/sys/kernel/mm/hugepages", node);
  node.distances = {{node.id, local_distance}};
  node.kind = kind_of(node);
  return node;
}

}  // namespace numapool
