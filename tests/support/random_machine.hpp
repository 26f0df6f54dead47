// SPDX-License-Identifier: Apache-2.0
#pragma once

// Machines that nobody built: nodes, CPUs, memory, distances, GPUs and what the process may use, at
// random, written as the kernel's files. The same seed gives the same machine.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <numapool/node.hpp>

namespace numapool::test {

struct random_node {
  cpu_set listed_cpus;  ///< as the kernel's file has it
  bool has_cpulist = true;
  bool has_cpumap = true;  ///< one of the two is there
  std::uint64_t memory_kib = 0;
  std::uint64_t free_kib = 0;
  std::vector<std::uint32_t> distances;  ///< to all nodes in order; empty: no file
  std::optional<std::uint64_t> huge_pages;
};

struct random_gpu {
  std::string address;
  std::optional<std::uint32_t> node;  ///< empty: the kernel says -1
  cpu_set local_cpus;                 ///< empty: no file
};

/// Facts as they are written. What a reader should make of them is the reader's test.
struct random_machine {
  std::map<std::uint32_t, random_node> nodes;
  cpu_set online_cpus;
  cpu_set allowed_cpus;    ///< of the process's own mask; may name CPUs that are offline
  node_set allowed_nodes;  ///< Mems_allowed
  std::optional<cpu_set> cpuset_cpus;  ///< of its cgroup
  std::optional<node_set> cpuset_nodes;
  std::vector<random_gpu> gpus;

  [[nodiscard]] static random_machine make(std::uint64_t seed);
  /// Its files, each with a path from "/sys" or "/proc" on.
  using writer = std::function<void(const std::string& path, const std::string& text)>;
  void write(const writer& put) const;
  /// The files of the CPUs, which few readers want.
  static void write_cpus(const cpu_set& cpus, const writer& put);
  /// The kernel's mask: words of 32 bits, the highest first.
  [[nodiscard]] static std::string mask_text(const cpu_set& cpus);
  /// The same, below a folder.
  void write(const std::string& folder) const;

  [[nodiscard]] cpu_set usable_cpus() const;    ///< online, and allowed by the mask and the cgroup
  [[nodiscard]] node_set usable_nodes() const;  ///< whose memory is allowed by both
  [[nodiscard]] bool has_all_distances() const;
};

}  // namespace numapool::test
