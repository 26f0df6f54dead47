// SPDX-License-Identifier: Apache-2.0

// Goal: what we read of a machine is what an independent program reads of the same files.
// Method: Debian's hwloc through its own filesystem root, on random machines and on the recorded
// ones of this repository, compared where both claim the same fact:
//  - it takes a node's CPUs from cpumap alone, and gives a node without CPUs those of its
//    initiators;
//  - it leaves a node out that has neither memory nor CPUs;
//  - it takes distances only where every row is whole.

#include <hwloc.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <numapool/topology.hpp>

#include "support/random_machine.hpp"
#include "support/temporary_folder.hpp"
#include "support/topology_text.hpp"

namespace numapool {
namespace {

namespace filesystem = std::filesystem;

struct peer_node {
  std::string cpus;
  std::uint64_t memory_bytes = 0;
};

struct peer_machine {
  std::map<std::uint32_t, peer_node> nodes;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> distances;
};

std::string list_of(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  hwloc_bitmap_list_asprintf(&text, bitmap);
  const std::unique_ptr<char, void (*)(void*)> owned(text, &std::free);
  return owned.get();
}

void take_distances(hwloc_topology_t from, peer_machine& into) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_name(from, "NUMALatency", &count, &matrix, 0) != 0 || count == 0) {
    return;
  }
  for (unsigned row = 0; row < matrix->nbobjs; ++row) {
    for (unsigned column = 0; column < matrix->nbobjs; ++column) {
      into.distances[{matrix->objs[row]->os_index, matrix->objs[column]->os_index}] =
          matrix->values[row * matrix->nbobjs + column];
    }
  }
  hwloc_distances_release(from, matrix);
}

peer_machine read_by_hwloc(const std::string& root) {
  ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  ::setenv("HWLOC_HIDE_ERRORS", "2", 1);
  ::setenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", 1);
  peer_machine machine;
  hwloc_topology_t reading = nullptr;
  EXPECT_EQ(hwloc_topology_init(&reading), 0);
  EXPECT_EQ(hwloc_topology_set_flags(reading, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), 0);
  EXPECT_EQ(hwloc_topology_load(reading), 0);
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(reading, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    machine.nodes[node->os_index] = {list_of(node->cpuset), node->attr->numanode.local_memory};
  }
  take_distances(reading, machine);
  hwloc_topology_destroy(reading);
  return machine;
}

bool has_cpumap(const std::string& root, node_id node) {
  return filesystem::exists(root + "/sys/devices/system/node/node" + std::to_string(node.value()) +
                            "/cpumap");
}

// Returns how many facts both claim.
std::size_t expect_same(const topology& ours, const peer_machine& peers, const std::string& root) {
  SCOPED_TRACE(tests::describe(ours));
  std::size_t facts = 0;
  for (const node_info& node : ours.nodes()) {
    const auto peer = peers.nodes.find(node.id.value());
    if (peer == peers.nodes.end()) {
      EXPECT_TRUE(node.memory_bytes == 0 || !has_cpumap(root, node.id)) << node.id;
      continue;
    }
    EXPECT_EQ(node.memory_bytes, peer->second.memory_bytes) << node.id;
    ++facts;
    if (has_cpumap(root, node.id) && !node.cpus.empty()) {
      EXPECT_EQ(node.cpus.to_list(), peer->second.cpus) << node.id;
      ++facts;
    }
  }
  for (const auto& [id, node] : peers.nodes) {
    EXPECT_NE(ours.find(node_id(id)), nullptr) << "hwloc alone has node " << id;
  }
  for (const auto& [pair, distance] : peers.distances) {
    EXPECT_EQ(ours.distance(node_id(pair.first), node_id(pair.second)), distance)
        << pair.first << " to " << pair.second;
    ++facts;
  }
  return facts;
}

TEST(Hwloc, AgreesOnRandomMachines) {
  std::size_t facts = 0;
  for (std::uint64_t seed = 1; seed <= 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const tests::temporary_folder folder;
    test::random_machine::make(seed).write(folder.path());
    facts += expect_same(topology::read({.root = folder.path()}), read_by_hwloc(folder.path()),
                         folder.path());
  }
  EXPECT_GT(facts, 200U) << "hardly anything was compared";
}

std::string text_of(const filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// A recording has the files that we read. hwloc wants some that the kernel has beside them: each
// CPU's own, and each node's mask, which says what its list says.
void complete(const std::string& root) {
  const auto put = [&root](const std::string& path, const std::string& text) {
    if (!filesystem::exists(root + path)) {
      filesystem::create_directories(filesystem::path(root + path).parent_path());
      std::ofstream(root + path) << text << '\n';
    }
  };
  test::random_machine::write_cpus(
      cpu_set::parse_list(text_of(root + "/sys/devices/system/cpu/online")), put);
  const std::string nodes = "/sys/devices/system/node";
  for (const auto& entry : filesystem::directory_iterator(root + nodes)) {
    if (filesystem::exists(entry.path() / "cpulist")) {
      put(nodes + "/" + entry.path().filename().string() + "/cpumap",
          test::random_machine::mask_text(cpu_set::parse_list(text_of(entry.path() / "cpulist"))));
    }
  }
}

TEST(Hwloc, AgreesOnTheRecordedMachines) {
  std::size_t facts = 0;
  for (const auto& entry : filesystem::directory_iterator(NUMAPOOL_TEST_MACHINES)) {
    if (HasFailure() || !filesystem::exists(entry.path() / "sys/devices/system/node")) {
      continue;  // no-nodes: hwloc has no word for what is not there
    }
    SCOPED_TRACE(entry.path().string());
    const tests::temporary_folder copy;
    filesystem::copy(entry.path(), copy.path(), filesystem::copy_options::recursive);
    complete(copy.path());
    facts +=
        expect_same(topology::read({.root = copy.path()}), read_by_hwloc(copy.path()), copy.path());
  }
  EXPECT_GT(facts, 30U) << "hardly anything was compared";
}

}  // namespace
}  // namespace numapool
