// SPDX-License-Identifier: Apache-2.0
#include "support/random_machine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

namespace numapool::test {
namespace {

class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  /// 0 to `below` - 1, the same everywhere: the standard's distributions are not.
  std::uint32_t under(std::uint32_t below) { return static_cast<std::uint32_t>(engine_() % below); }
  bool one_in(std::uint32_t count) { return under(count) == 0; }

 private:
  std::mt19937_64 engine_;
};

std::vector<std::uint32_t> random_ids(dice& dice) {
  const bool is_sparse = dice.one_in(3);
  std::set<std::uint32_t> ids;
  const std::uint32_t count = 1 + dice.under(8);
  for (std::uint32_t id = 0; ids.size() < count;) {
    ids.insert(id);
    id += is_sparse ? 1 + dice.under(70) : 1;
  }
  return {ids.begin(), ids.end()};
}

// Each CPU to one node: in blocks, or in turn as some firmware has it.
void deal_cpus(dice& dice, random_machine& machine, const std::vector<std::uint32_t>& owners) {
  const bool in_turn = dice.one_in(3);
  const std::uint32_t each = 1 + dice.under(6);
  const auto count = static_cast<std::uint32_t>(owners.size()) * each;
  for (std::uint32_t cpu = 0; cpu < count; ++cpu) {
    const std::size_t owner = in_turn ? cpu % owners.size() : cpu / each;
    const bool is_online = cpu == 0 || !dice.one_in(10);
    if (is_online) {
      machine.online_cpus.insert(cpu_id(cpu));
    }
    // Old kernels list offline CPUs too.
    if (is_online || dice.one_in(2)) {
      machine.nodes[owners[owner]].listed_cpus.insert(cpu_id(cpu));
    }
  }
}

std::vector<std::uint32_t> random_distances(dice& dice, std::size_t count, std::size_t own) {
  if (dice.one_in(12)) {
    return {};
  }
  std::vector<std::uint32_t> row;
  for (std::size_t i = 0; i < count; ++i) {
    row.push_back(i == own ? 10 : 11 + dice.under(5));  // few values: ties matter
  }
  if (dice.one_in(15)) {
    row.pop_back();
  }
  return row;
}

void fill_nodes(dice& dice, random_machine& machine) {
  std::size_t index = 0;
  for (auto& [id, node] : machine.nodes) {
    node.memory_kib = dice.one_in(5) ? 0 : 1024 * (64 + dice.under(4096));
    node.free_kib = node.memory_kib / (1 + dice.under(4));
    node.has_cpulist = !dice.one_in(5);
    node.has_cpumap = !node.has_cpulist || !dice.one_in(4);
    node.distances = random_distances(dice, machine.nodes.size(), index++);
    if (dice.one_in(3)) {
      node.huge_pages = dice.under(100);
    }
  }
}

template <typename Set>
Set random_part(dice& dice, const Set& whole, std::uint32_t one_in) {
  Set part;
  for (const auto id : whole) {
    if (!dice.one_in(one_in)) {
      part.insert(id);
    }
  }
  return part.empty() ? whole : part;  // the kernel has no process that may run nowhere
}

void restrict_process(dice& dice, random_machine& machine) {
  node_set all_nodes;
  cpu_set all_cpus = machine.online_cpus;
  for (const auto& [id, node] : machine.nodes) {
    all_nodes.insert(node_id(id));
    all_cpus = all_cpus | node.listed_cpus;
  }
  machine.allowed_cpus = dice.one_in(2) ? all_cpus : random_part(dice, all_cpus, 3);
  machine.allowed_nodes = dice.one_in(2) ? all_nodes : random_part(dice, all_nodes, 4);
  if (dice.one_in(3)) {
    machine.cpuset_cpus = random_part(dice, all_cpus, 4);
    machine.cpuset_nodes = random_part(dice, all_nodes, 4);
  }
}

void add_gpus(dice& dice, random_machine& machine) {
  for (std::uint32_t i = dice.under(5); i > 0; --i) {
    random_gpu gpu;
    std::ostringstream address;
    address << "0000:" << std::hex << 0x10 + i << ":00.0";
    gpu.address = address.str();
    auto chosen = machine.nodes.begin();
    std::advance(chosen, dice.under(static_cast<std::uint32_t>(machine.nodes.size())));
    if (!dice.one_in(3)) {
      gpu.node = chosen->first;
    }
    if (dice.one_in(2)) {
      gpu.local_cpus = dice.one_in(2) ? chosen->second.listed_cpus : machine.online_cpus;
    }
    machine.gpus.push_back(gpu);
  }
}

// ---- as files

using writer = random_machine::writer;

void write_node(const writer& put, const std::string& folder, std::uint32_t id,
                const random_node& node) {
  const std::string prefix = "Node " + std::to_string(id) + " ";
  if (node.has_cpulist) {
    put(folder + "/cpulist", node.listed_cpus.to_list());
  }
  if (node.has_cpumap) {
    put(folder + "/cpumap", random_machine::mask_text(node.listed_cpus));
  }
  put(folder + "/meminfo", prefix + "MemTotal:       " + std::to_string(node.memory_kib) + " kB\n" +
                               prefix + "MemFree:        " + std::to_string(node.free_kib) + " kB");
  if (!node.distances.empty()) {
    std::string row;
    for (const std::uint32_t distance : node.distances) {
      row += (row.empty() ? "" : " ") + std::to_string(distance);
    }
    put(folder + "/distance", row);
  }
  if (node.huge_pages) {
    put(folder + "/hugepages/hugepages-2048kB/nr_hugepages", std::to_string(*node.huge_pages));
    put(folder + "/hugepages/hugepages-2048kB/free_hugepages", std::to_string(*node.huge_pages));
  }
}

void write_gpu(const writer& put, const std::string& folder, const random_gpu& gpu) {
  put(folder + "/vendor", "0x10de");
  put(folder + "/class", "0x030200");
  put(folder + "/device", "0x2330");
  put(folder + "/numa_node", gpu.node ? std::to_string(*gpu.node) : "-1");
  if (!gpu.local_cpus.empty()) {
    put(folder + "/local_cpulist", gpu.local_cpus.to_list());
  }
}

}  // namespace

random_machine random_machine::make(std::uint64_t seed) {
  dice dice(seed);
  random_machine machine;
  std::vector<std::uint32_t> owners;
  for (const std::uint32_t id : random_ids(dice)) {
    machine.nodes[id];
    if (owners.empty() || !dice.one_in(4)) {
      owners.push_back(id);  // the others have memory alone, or nothing
    }
  }
  deal_cpus(dice, machine, owners);
  fill_nodes(dice, machine);
  restrict_process(dice, machine);
  add_gpus(dice, machine);
  return machine;
}

void random_machine::write(const writer& put) const {
  node_set ids;
  for (const auto& [id, node] : nodes) {
    ids.insert(node_id(id));
    write_node(put, "/sys/devices/system/node/node" + std::to_string(id), id, node);
  }
  put("/sys/devices/system/node/online", ids.to_list());
  put("/sys/devices/system/cpu/online", online_cpus.to_list());
  write_cpus(online_cpus, put);
  std::uint64_t memory_kib = 0;
  for (const auto& [id, node] : nodes) {
    memory_kib += node.memory_kib;
  }
  put("/proc/meminfo", "MemTotal:       " + std::to_string(memory_kib) + " kB");
  put("/proc/self/status", "Name:\trandom\nCpus_allowed_list:\t" + allowed_cpus.to_list() +
                               "\nMems_allowed_list:\t" + allowed_nodes.to_list());
  if (cpuset_cpus) {
    put("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
    put("/proc/self/cgroup", "0::/job");
    put("/sys/fs/cgroup/job/cpuset.cpus.effective", cpuset_cpus->to_list());
    put("/sys/fs/cgroup/job/cpuset.mems.effective", cpuset_nodes->to_list());
  }
  for (const random_gpu& gpu : gpus) {
    write_gpu(put, "/sys/bus/pci/devices/" + gpu.address, gpu);
  }
}

std::string random_machine::mask_text(const cpu_set& cpus) {
  std::ostringstream text;
  const std::uint32_t words = cpus.empty() ? 1 : cpus.back().value() / 32 + 1;
  for (std::uint32_t word = words; word-- > 0;) {
    std::uint32_t bits = 0;
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      bits |= cpus.contains(cpu_id(word * 32 + bit)) ? 1U << bit : 0U;
    }
    text << std::hex;
    text.width(8);
    text.fill('0');
    text << bits << (word == 0 ? "" : ",");
  }
  return text.str();
}

void random_machine::write_cpus(const cpu_set& cpus, const writer& put) {
  for (const cpu_id cpu : cpus) {
    const std::string id = std::to_string(cpu.value());
    const std::string folder = "/sys/devices/system/cpu/cpu" + id + "/topology";
    const std::string own = mask_text(cpu_set{cpu});
    put(folder + "/core_id", id);
    put(folder + "/physical_package_id", id);
    put(folder + "/thread_siblings", own);
    put(folder + "/core_siblings", own);
  }
}

void random_machine::write(const std::string& folder) const {
  write([&folder](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder + path).parent_path());
    std::ofstream(folder + path) << text << '\n';
  });
}

namespace {

// A cgroup that leaves nothing of what the kernel grants is no cgroup of this process.
template <typename Set>
Set cut(const Set& granted, const std::optional<Set>& cpuset) {
  const Set both = cpuset ? granted & *cpuset : granted;
  return both.empty() ? granted : both;
}

}  // namespace

cpu_set random_machine::usable_cpus() const {
  return online_cpus & cut(allowed_cpus, cpuset_cpus);
}

node_set random_machine::usable_nodes() const {
  return cut(allowed_nodes, cpuset_nodes);
}

bool random_machine::has_all_distances() const {
  return std::all_of(nodes.begin(), nodes.end(), [this](const auto& entry) {
    return entry.second.distances.size() == nodes.size();
  });
}

}  // namespace numapool::test
