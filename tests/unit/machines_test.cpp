// SPDX-License-Identifier: Apache-2.0

// Goal: machines that others recorded read as an independent program (hwloc, whose summaries lie beside them) reads
// them. Method: unpack each recording, and compare fact by fact. Where hwloc and the kernel differ by intent, the
// kernel's own file is the witness: hwloc gives a node without CPUs those of its initiators.
// The recordings are not part of this repository; NUMAPOOL_MACHINES_DIR says where they are.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/topology.hpp>

#include "support/temporary_folder.hpp"
#include "support/topology_text.hpp"

namespace numapool {
namespace {

namespace filesystem = std::filesystem;

struct summary_node {
  std::string cpus;
  std::uint64_t memory_kib = 0;
  std::string gpu;
  std::vector<std::uint32_t> distances;
};

/// One view of a summary file: "[include-disallowed]".
struct summary {
  std::string allowed_cpus;
  std::string allowed_nodes;
  std::map<std::uint32_t, summary_node> nodes;
};

std::string value_after(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) {
    return "";
  }
  const std::size_t start = at + key.size();
  return line.substr(start, line.find(' ', start) - start);
}

void read_summary_line(const std::string& line, summary& view) {
  std::istringstream fields(line);
  std::string word;
  fields >> word;
  if (word == "allowed_cpuset") {
    fields >> view.allowed_cpus;
  } else if (word == "allowed_nodeset") {
    fields >> view.allowed_nodes;
  } else if (word == "node") {
    summary_node& node = view.nodes[static_cast<std::uint32_t>(std::stoul(value_after(line, "os=")))];
    node.cpus = value_after(line, "cpus=");
    node.memory_kib = std::stoull(value_after(line, "mem_kib="));
    node.gpu = value_after(line, "pci=");
  } else if (word == "dist") {
    const std::string id = value_after(line, "os=");
    std::istringstream row(line.substr(line.find(": ") + 2));
    for (std::uint32_t distance = 0; row >> distance;) {
      view.nodes[static_cast<std::uint32_t>(std::stoul(id))].distances.push_back(distance);
    }
  }
}

summary read_summary(const std::string& path, const std::string& section) {
  summary view;
  std::ifstream file(path);
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) {
      is_inside = line == "[" + section + "]";
    } else if (is_inside) {
      read_summary_line(line, view);
    }
  }
  return view;
}

struct recording {
  std::string name;
  std::string section = "include-disallowed";

  friend void PrintTo(const recording& machine, std::ostream* stream) { *stream << machine.name; }
};

class Recorded : public testing::TestWithParam<recording> {
 protected:
  void SetUp() override {
    const char* const set = std::getenv("NUMAPOOL_MACHINES_DIR");
    const std::string folder = set != nullptr ? set : NUMAPOOL_MACHINES_DIR;
    const std::string tarball = folder + "/" + GetParam().name + ".tar.bz2";
    if (!filesystem::exists(tarball)) {
      GTEST_SKIP() << "NOT TESTED: the recorded machine " << tarball
                   << " is not here; NUMAPOOL_MACHINES_DIR says where the recordings are.";
    }
    // Without the thousands of files on memory blocks and devices, which nobody looks at here.
    const std::string command = "tar -xjf '" + tarball + "' -C '" + unpacked_.path() +
                                "' --exclude='memory[0-9]*' --exclude='pci[0-9]*' --exclude='sys/class'" +
                                " --exclude='topology' --exclude='cache' --exclude='cpuidle' --exclude='cpufreq'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command << " (tar needs bzip2)";
    for (const auto& entry : filesystem::directory_iterator(unpacked_.path())) {
      root_ = entry.path().string();
    }
    summary_ = read_summary(folder + "/" + GetParam().name + ".hwloc-summary.txt", GetParam().section);
    ASSERT_FALSE(summary_.nodes.empty());
  }

  /// The kernel's cpulist, cut to the CPUs that are online.
  [[nodiscard]] std::optional<cpu_set> kernel_cpus(node_id node) const {
    std::ifstream file(root_ + "/sys/devices/system/node/node" + std::to_string(node.value()) + "/cpulist");
    std::ifstream online(root_ + "/sys/devices/system/cpu/online");
    std::string list;
    std::string online_list;
    if (!file || !online) {
      return std::nullopt;
    }
    std::getline(file, list);
    std::getline(online, online_list);
    return cpu_set::parse_list(list) & cpu_set::parse_list(online_list);
  }

  tests::temporary_folder unpacked_;
  std::string root_;
  summary summary_;
};

void expect_distances(const topology& machine, const node_info& node, const summary& view) {
  const std::vector<std::uint32_t>& row = view.nodes.at(node.id.value()).distances;
  if (row.empty()) {
    return;  // hwloc shows none for a machine of one node
  }
  ASSERT_EQ(node.distances.size(), row.size());
  auto distance = row.begin();
  for (const auto& [id, other] : view.nodes) {
    EXPECT_EQ(machine.distance(node.id, node_id(id)), *distance++) << node.id << " to " << id;
  }
}

void expect_saved_reads_back(const topology& machine, const std::string& root) {
  const tests::temporary_folder folder;
  save_machine(folder.path(), {.root = root});
  EXPECT_EQ(tests::describe(topology::read({.root = folder.path()})), tests::describe(machine));
}

class SameAsHwloc : public Recorded {};

TEST_P(SameAsHwloc, ReadsTheMachine) {
  const topology machine = topology::read({.root = root_});
  EXPECT_EQ(machine.allowed_cpus().to_list(), summary_.allowed_cpus);
  EXPECT_EQ(machine.allowed_nodes().to_list(), summary_.allowed_nodes);
  ASSERT_EQ(machine.node_count(), summary_.nodes.size()) << tests::describe(machine);
  for (const auto& [id, expected] : summary_.nodes) {
    const node_info* const node = machine.find(node_id(id));
    ASSERT_NE(node, nullptr) << id;
    const auto by_kernel = kernel_cpus(node->id);
    EXPECT_EQ(node->cpus.to_list(), by_kernel ? by_kernel->to_list() : expected.cpus) << id;
    if (!node->cpus.empty()) {
      EXPECT_EQ(node->cpus.to_list(), expected.cpus) << id;
    }
    EXPECT_EQ(node->usable_cpus, node->cpus & machine.allowed_cpus());
    EXPECT_EQ(node->memory_bytes, expected.memory_kib * 1024) << id;
    EXPECT_EQ(node->gpu_pci_address.value_or(""), expected.gpu) << id;
    expect_distances(machine, *node, summary_);
  }
  expect_saved_reads_back(machine, root_);
}

std::string name_of(const testing::TestParamInfo<recording>& info) {
  std::string name;
  for (char letter : info.param.name) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Machines, SameAsHwloc,
                         testing::Values(recording{"20s390-2g6s4c"}, recording{"32amd64-4s2n4c-cgroup2"},
                                         recording{"40intel64-2g2n4c+pcilocality"}, recording{"48amd64-4pa2n6c-sparse"},
                                         recording{"nvidiagpunumanodes", "keep-nvidia-gpu-nodes"},
                                         recording{"offline-cpu0-node0"}),
                         name_of);

// hwloc folds eight nodes that all claim the same CPUs into one; we keep what the firmware says, and say so.
class BuggyNuma : public Recorded {};

TEST_P(BuggyNuma, StaysAsReportedWithAWarning) {
  const topology machine = topology::read({.root = root_});
  ASSERT_EQ(machine.node_count(), 8U);
  std::uint32_t id = 0;
  for (const node_info& node : machine.nodes()) {
    EXPECT_EQ(node.id, node_id(id++));
    EXPECT_EQ(node.cpus.to_list(), "0-7");
    EXPECT_EQ(machine.distance(node.id, node_id(0)), 10U);
  }
  EXPECT_EQ(machine.find(node_id(0))->memory_bytes, summary_.nodes.at(0).memory_kib * 1024);
  EXPECT_EQ(machine.allowed_cpus().to_list(), summary_.allowed_cpus);
  EXPECT_EQ(machine.node_of_cpu(cpu_id(5)), node_id(0));
  ASSERT_EQ(machine.warnings().size(), 1U) << tests::describe(machine);
  EXPECT_NE(machine.warnings().front().find("several nodes (0-7)"), std::string::npos);
  expect_saved_reads_back(machine, root_);
}

INSTANTIATE_TEST_SUITE_P(Machines, BuggyNuma, testing::Values(recording{"8em64t-2s2ca2c-buggynuma"}), name_of);

}  // namespace
}  // namespace numapool
