// SPDX-License-Identifier: Apache-2.0
#include "lab/scenarios/guest.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

namespace numapool::lab {
namespace {

constexpr const char* node_folder = "/sys/devices/system/node";

std::size_t meminfo_bytes(const std::string& text, const std::string& key) {
  const std::size_t place = text.find(key + ":");
  return place == std::string::npos
             ? 0
             : std::stoull(text.substr(place + key.size() + 1)) * std::size_t{1024};
}

guest_node read_node(const std::string& folder) {
  guest_node node;
  node.cpus = read_list(read_file(folder + "/cpulist"));
  const std::string meminfo = read_file(folder + "/meminfo");
  node.memory_bytes = meminfo_bytes(meminfo, "MemTotal");
  node.free_bytes = meminfo_bytes(meminfo, "MemFree");
  std::istringstream distances(read_file(folder + "/distance"));
  for (int distance = 0; distances >> distance;) {
    node.distances.push_back(distance);
  }
  return node;
}

// The value of "Cpus_allowed_list:" and its like in a status file.
std::string status_value(const std::string& path, const std::string& key) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key + ":")) {
      return line.substr(line.find_first_not_of(" \t", key.size() + 1));
    }
  }
  return {};
}

}  // namespace

std::vector<guest_gpu> read_gpus() {
  std::vector<guest_gpu> gpus;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices")) {
    const std::string folder = entry.path().string();
    if (read_file(folder + "/vendor") == "0x10de" &&
        read_file(folder + "/class").starts_with("0x0302")) {
      gpus.push_back({entry.path().filename(), std::stoi(read_file(folder + "/numa_node"))});
    }
  }
  std::sort(gpus.begin(), gpus.end(), [](const guest_gpu& left, const guest_gpu& right) {
    return left.address < right.address;
  });
  EXPECT_GE(gpus.size(), 2U) << "this guest has no GPUs to tell apart";
  return gpus;
}

void expect_order_to_tell(const std::vector<guest_gpu>& gpus) {
  const bool is_plain = std::is_sorted(
      gpus.begin(), gpus.end(),
      [](const guest_gpu& left, const guest_gpu& right) { return left.node < right.node; });
  EXPECT_FALSE(is_plain) << "GPUs in the order of their nodes prove nothing";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  EXPECT_TRUE(file.good()) << path << " takes no '" << text << "'";
}

std::set<int> read_list(const std::string& text) {
  std::set<int> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    int last = 0;
    const int count = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    EXPECT_GE(count, 1) << "no kernel list: " << text;
    for (int number = first; number <= (count == 2 ? last : first); ++number) {
      numbers.insert(number);
    }
  }
  return numbers;
}

guest guest::read() {
  guest here;
  for (const auto& entry : std::filesystem::directory_iterator(node_folder)) {
    int id = 0;
    if (std::sscanf(entry.path().filename().c_str(), "node%d", &id) == 1) {
      here.nodes[id] = read_node(entry.path().string());
    }
  }
  here.allowed_cpus = read_list(status_value("/proc/self/status", "Cpus_allowed_list"));
  here.allowed_nodes = read_list(status_value("/proc/self/status", "Mems_allowed_list"));
  return here;
}

std::set<int> guest::memory_nodes() const {
  std::set<int> found;
  for (const auto& [id, node] : nodes) {
    if (node.memory_bytes != 0 && allowed_nodes.contains(id)) {
      found.insert(id);
    }
  }
  return found;
}

std::set<int> guest::usable_nodes() const {
  std::set<int> found;
  for (const auto& [id, node] : nodes) {
    if (std::any_of(node.cpus.begin(), node.cpus.end(),
                    [this](int cpu) { return allowed_cpus.contains(cpu); })) {
      found.insert(id);
    }
  }
  return found;
}

int guest::nearest(int from, const std::set<int>& among) const {
  if (among.contains(from)) {
    return from;
  }
  int best = -1;
  int best_distance = 256;
  std::size_t index = 0;
  for (const auto& [id, node] : nodes) {
    const int distance = nodes.at(from).distances.at(index++);
    if (among.contains(id) && distance < best_distance) {
      best = id;
      best_distance = distance;
    }
  }
  return best;
}

request ask(int node, std::size_t size_bytes) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node_id(static_cast<std::uint32_t>(node));
  what.pin = pin_policy::none;
  what.verify = verify_policy::full;
  return what;
}

test::page_census expect_handle_is_right(const buffer& held, std::size_t witnesses) {
  const test::page_census seen = test::census_of(held.data(), held.mapped_bytes(), witnesses);
  test::page_census said;
  for (const pages_on_node& each : held.placement().by_node) {
    if (each.node.is_unknown()) {
      said.not_resident += each.pages;
    } else {
      said.by_node[static_cast<int>(each.node.value())] += each.pages;
    }
  }
  EXPECT_EQ(said, seen) << "the handle says other than the witnesses";
  const auto on_node = seen.by_node.find(static_cast<int>(held.node_requested().value()));
  const std::size_t pages = on_node == seen.by_node.end() ? 0 : on_node->second;
  EXPECT_DOUBLE_EQ(held.placement().share_on_node,
                   static_cast<double>(pages) / static_cast<double>(seen.pages()));
  return seen;
}

void expect_all_on(const buffer& held, int node, std::size_t witnesses) {
  const test::page_census seen = expect_handle_is_right(held, witnesses);
  test::page_census wanted;
  wanted.by_node[node] = seen.pages();
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ(static_cast<int>(held.node_reached().value()), node);
}

std::map<int, std::vector<std::set<int>>> worker_masks() {
  std::map<int, std::vector<std::set<int>>> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    int node = 0;
    if (std::sscanf(read_file(task.path() / "comm").c_str(), "numapool-%d", &node) == 1) {
      masks[node].push_back(read_list(status_value(task.path() / "status", "Cpus_allowed_list")));
    }
  }
  return masks;
}

void expect_workers_keep_to_their_nodes(const guest& here) {
  const auto masks = worker_masks();
  EXPECT_FALSE(masks.empty());
  for (const auto& [node, workers] : masks) {
    for (const std::set<int>& mask : workers) {
      for (const int cpu : mask) {
        EXPECT_TRUE(here.nodes.at(node).cpus.contains(cpu)) << "node " << node << ", cpu " << cpu;
        EXPECT_TRUE(here.allowed_cpus.contains(cpu)) << "node " << node << ", cpu " << cpu;
      }
    }
  }
}

}  // namespace numapool::lab
