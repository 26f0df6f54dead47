// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the cgroups of this process allow it: CPUs, nodes, CPU time and memory.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <numapool/node.hpp>

#include "platform/platform.hpp"
#include "topology/cgroup_folders.hpp"
#include "topology/kernel_files.hpp"

namespace numapool::cgroup {

/// The cpuset controller's sets; empty where no cpuset is configured, mounted or readable.
struct cpuset {
  std::optional<cpu_set> cpus;
  std::optional<node_set> nodes;
};

/// The innermost configured level rules, as the kernel cuts every level by its parent. Unreadable
/// files warn.
[[nodiscard]] cpuset read_cpuset(const platform::files& files, const kernel_files& reader);

/// CPUs' worth of time: the smallest quota of this process's cgroup and its ancestors; empty when
/// unlimited.
[[nodiscard]] std::optional<double> read_cpu_quota(const platform::files& files,
                                                   const kernel_files& reader);

/// A cgroup of this process that limits its memory.
struct memory_limit {
  std::string path;               ///< the cgroup's folder, to name it in messages
  std::uint64_t limit_bytes = 0;  ///< memory.max; version 1: memory.limit_in_bytes
  std::uint64_t usage_bytes = 0;  ///< memory.current; version 1: memory.usage_in_bytes
  std::uint64_t reclaimable_bytes =
      0;  ///< file cache within the usage, which the kernel drops first
};

/// The limits on this process's memory at this moment, from its own cgroup outwards; every one of
/// them holds. Levels without a limit, and files that cannot be read, are left out.
///
/// Where the cgroups are mounted is looked up once and again when the process has moved to another
/// cgroup or a file of theirs is gone: of the 40 us that one answer took, finding the mounts was
/// 25. Threads: one at a time.
class memory_limit_reader {
 public:
  /// `files` is used for as long as this lives.
  explicit memory_limit_reader(const platform::files& files) noexcept : files_(files) {}
  /// Cost: /proc/self/cgroup and one small file a level; two more where there is a limit.
  [[nodiscard]] std::vector<memory_limit> read();

 private:
  struct level {
    version of = version::v2;
    std::string folder;
    bool has_limit_file = false;
  };
  void find_levels();
  [[nodiscard]] std::optional<std::vector<memory_limit>> read_levels();

  const platform::files& files_;
  std::string memberships_;  // /proc/self/cgroup when the levels were found
  std::vector<level> levels_;
};

/// The same, asked once.
[[nodiscard]] std::vector<memory_limit> memory_limits(const platform::files& files);

}  // namespace numapool::cgroup
