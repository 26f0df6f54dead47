// SPDX-License-Identifier: Apache-2.0
#include "support/fake_machine.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "pool/pool_core.hpp"
#include "topology/topology_builder.hpp"

namespace numapool::test {
namespace {

const std::string node_folder = "/sys/devices/system/node/node";
const std::string huge_folder = "/hugepages/hugepages-2048kB/";
const std::string cgroup_folder = "/sys/fs/cgroup/job";

std::string in_kib(std::uint64_t bytes) { return std::to_string(bytes / kib) + " kB\n"; }

std::string meminfo(const std::string& prefix, std::uint64_t total, std::uint64_t free) {
  return prefix + "MemTotal:       " + in_kib(total) + prefix + "MemFree:        " + in_kib(free);
}

std::string distance_row(const machine_plan& plan, const node_plan& node) {
  std::string row;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::uint32_t usual = plan.nodes[i].id == node.id ? 10 : 20;
    row += (i == 0 ? "" : " ") + std::to_string(node.distances.empty() ? usual : node.distances.at(i));
  }
  return row + "\n";
}

void write_node(fake_files& files, const machine_plan& plan, const node_plan& node) {
  const std::string folder = node_folder + std::to_string(node.id);
  files.set(folder + "/cpulist", node.cpus + "\n");
  files.set(folder + "/meminfo", meminfo("Node " + std::to_string(node.id) + " ", node.memory_bytes,
                                         node.free_bytes.value_or(node.memory_bytes / 10 * 9)));
  files.set(folder + "/distance", distance_row(plan, node));
  files.set(folder + huge_folder + "nr_hugepages", std::to_string(node.huge_pages) + "\n");
  files.set(folder + huge_folder + "free_hugepages", std::to_string(node.huge_pages) + "\n");
  if (node.gpu) {
    files.set("/proc/driver/nvidia/gpus/" + *node.gpu + "/numa_status", "Node: " + std::to_string(node.id) + "\n");
  }
}

void write_plan(fake_files& files, const machine_plan& plan) {
  cpu_set online;
  node_set listed;
  for (const node_plan& node : plan.nodes) {
    online |= cpu_set::parse_list(node.cpus);
    listed.insert(node_id(node.id));
    write_node(files, plan, node);
  }
  if (plan.nodes.empty()) {
    online = cpu_set::parse_list("0-3");
    listed = {node_id(0)};
    files.set("/proc/meminfo", meminfo("", 64 * gib, 60 * gib));
  }
  files.set("/sys/devices/system/cpu/online", online.to_list() + "\n");
  files.set("/proc/self/status",
            "Name:\ttest\nCpus_allowed_list:\t" + (plan.allowed_cpus.empty() ? online.to_list() : plan.allowed_cpus) +
                "\nMems_allowed_list:\t" + (plan.allowed_nodes.empty() ? listed.to_list() : plan.allowed_nodes) + "\n");
  files.set("/proc/sys/kernel/osrelease", plan.kernel + "\n");
}

}  // namespace

machine_plan machine_plan::one_node() {
  machine_plan plan;
  plan.nodes = {{0, "0-3", 64 * gib, {}, {}, {}, 64}};
  return plan;
}

machine_plan machine_plan::two_nodes() {
  machine_plan plan;
  plan.nodes = {{0, "0-3", 64 * gib, {}, {}, {}, 64}, {1, "4-7", 64 * gib, {}, {}, {}, 64}};
  return plan;
}

machine_plan machine_plan::memory_only() {
  machine_plan plan = two_nodes();
  plan.nodes[0].distances = {10, 20, 40};
  plan.nodes[1].distances = {20, 10, 15};
  plan.nodes.push_back({2, "", 64 * gib, {}, {40, 15, 10}, {}, 0});
  return plan;
}

machine_plan machine_plan::cpu_only() {
  machine_plan plan = memory_only();
  plan.nodes[2].cpus = "8-11";
  plan.nodes[2].memory_bytes = 0;
  return plan;
}

machine_plan machine_plan::gpu_memory() {
  machine_plan plan;
  plan.nodes = {{0, "0-3", 64 * gib, {}, {10, 40, 80, 120}, {}, 0},
                {1, "4-7", 64 * gib, {}, {40, 10, 120, 80}, {}, 0},
                {2, "", 96 * gib, {}, {80, 120, 10, 60}, "0008:01:00.0", 0},
                {10, "", 96 * gib, {}, {120, 80, 60, 10}, "0018:01:00.0", 0}};
  return plan;
}

machine_plan machine_plan::sparse() {
  machine_plan plan;
  plan.nodes = {{3, "4-7", 64 * gib, {}, {}, {}, 0}, {64, "128-131", 64 * gib, {}, {}, {}, 0}};
  return plan;
}

machine_plan machine_plan::no_nodes() { return {}; }

fake_machine::fake_machine(const machine_plan& plan) : files_(std::make_unique<fake_files>(nullptr)) {
  write_plan(*files_, plan);
  assemble();
}

fake_machine::fake_machine(const std::string& recorded_root)
    : files_(std::make_unique<fake_files>(platform::files_below(recorded_root))) {
  assemble();
}

fake_machine::~fake_machine() {
  EXPECT_EQ(threads_->live(), 0U) << "threads were left";
  EXPECT_EQ(memory_->mappings(), 0U) << "mappings were left";
  EXPECT_TRUE(registrar_.registered().empty()) << "registrations were left";
}

void fake_machine::assemble() {
  reread();
  std::map<cpu_id, node_id> node_of_cpu;
  std::map<node_id, fake_memory::node_books> books;
  for (const node_info& node : topology_->nodes()) {
    for (const cpu_id cpu : node.cpus) {
      node_of_cpu.emplace(cpu, node.id);
    }
    if (node.memory_bytes == 0) {
      continue;
    }
    fake_memory::node_books& home = books[node.id];
    home.total_bytes = node.memory_bytes;
    home.free_bytes = node.free_bytes;
    for (const huge_page_pool& pool : node.huge_pages) {
      home.huge_free += pool.page_size_bytes == fake_memory::huge_page_bytes ? pool.free_pages : 0;
    }
    std::vector<node_distance> nearest = node.distances;
    std::stable_sort(nearest.begin(), nearest.end(),
                     [](const node_distance& a, const node_distance& b) { return a.distance < b.distance; });
    for (const node_distance& other : nearest) {
      const node_info* const there = topology_->find(other.to);
      if (there->memory_bytes > 0 && (!there->gpu_pci_address || other.to == node.id)) {
        home.by_distance.push_back(other.to);
      }
    }
  }
  threads_ = std::make_unique<fake_threads>(topology_->allowed_cpus(), std::move(node_of_cpu));
  memory_ = std::make_unique<fake_memory>(std::move(books));
  // A CPU on a node without memory takes its pages from the nearest that has some.
  memory_->set_toucher([this] { return topology_->nearest_memory_node(threads_->current_node()); });
  memory_->set_registered([this](const std::byte* data, std::size_t size) { return registrar_.overlaps(data, size); });
  registrar_.set_range_check([this](const fake_registrar::range& asked) {
    EXPECT_EQ(memory_->resident_pages(asked.address, asked.size_bytes), asked.size_bytes / memory_->page_size_bytes())
        << "registered before it was resident: the driver faults pages in one by one";
  });
  raw_.reset(new platform::platform{*files_, *threads_, *memory_, registrar_});
  faults_ = std::make_unique<fault_injector>(*raw_);
  write_live_files();
}

void fake_machine::write_live_files() {
  files_->set("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", std::to_string(fake_memory::huge_page_bytes) + "\n");
  files_->set("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  files_->set_live("/proc/self/numa_maps", [this] { return memory_->numa_maps(); });
  files_->set("/sys/kernel/mm" + huge_folder + "resv_hugepages", "0\n");
  files_->set_live("/sys/kernel/mm" + huge_folder + "free_hugepages",
                   [this] { return std::to_string(memory_->huge_free({})) + "\n"; });
  for (const node_info& node : topology_->nodes()) {
    if (node.memory_bytes == 0) {
      continue;
    }
    const bool is_real = topology_->source() == topology_source::sysfs;
    const std::string prefix = is_real ? "Node " + std::to_string(node.id.value()) + " " : "";
    const std::string folder = node_folder + std::to_string(node.id.value());
    files_->set_live(is_real ? folder + "/meminfo" : "/proc/meminfo",
                     [this, prefix, id = node.id, total = node.memory_bytes] {
                       return meminfo(prefix, total, memory_->free_bytes(id));
                     });
    if (is_real) {
      files_->set_live(folder + huge_folder + "free_hugepages",
                       [this, id = node.id] { return std::to_string(memory_->huge_free(id)) + "\n"; });
    }
  }
}

void fake_machine::reread() {
  topology_ = std::make_shared<const topology>(topology_builder::read(*files_, threads_.get()));
}

std::unique_ptr<worker_pool> fake_machine::make_pool(const worker_pool_options& options) {
  return pool_access::make(platform(), topology_, options);
}

void fake_machine::add_devices(const std::vector<node_id>& nodes) {
  std::vector<fake_registrar::device> devices;
  for (const node_id node : nodes) {
    const std::string address = "0000:" + std::to_string(10 + devices.size()) + ":00.0";
    devices.push_back({address, false});
    files_->set("/sys/bus/pci/devices/" + address + "/numa_node",
                (node.is_unknown() ? "-1" : std::to_string(node.value())) + "\n");
  }
  registrar_.set_devices(std::move(devices));
}

void fake_machine::set_cgroup_memory(std::uint64_t limit_bytes, std::uint64_t usage_bytes,
                                     std::uint64_t file_cache_bytes) {
  files_->set("/proc/self/cgroup", "0::/job\n");
  files_->set("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  files_->set(cgroup_folder + "/memory.max", std::to_string(limit_bytes) + "\n");
  files_->set(cgroup_folder + "/memory.current", std::to_string(usage_bytes) + "\n");
  files_->set(cgroup_folder + "/memory.stat", "anon 1\ninactive_file " + std::to_string(file_cache_bytes) + "\n");
}

void fake_machine::set_cpu_quota(const std::string& cpu_max) {
  files_->set("/proc/self/cgroup", "0::/job\n");
  files_->set("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  files_->set(cgroup_folder + "/cpu.max", cpu_max + "\n");
  reread();
}

}  // namespace numapool::test
