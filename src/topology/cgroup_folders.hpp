// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the cgroups of this process are: the folders that may hold its limits, for version 1,
// version 2 and both at once, wherever they are mounted. Facts: cgroups(7), proc(5).

#include <string>
#include <string_view>
#include <vector>

#include "platform/platform.hpp"

namespace numapool::cgroup {

enum class version : std::uint8_t { v1, v2 };

/// One hierarchy that can carry the controller asked for.
struct hierarchy {
  cgroup::version version = version::v2;
  /// This process's cgroup and then its ancestors, as far as they are mounted. Not all of them need
  /// to exist.
  std::vector<std::string> folders;
};

/// The hierarchies of `controller` ("cpuset", "cpu", "memory"): the version 1 mount that has it,
/// and any version 2 mount, which may or may not (its files say so level by level). Both are
/// answered on a hybrid machine, and a process may be in either; empty where nothing is mounted or
/// nobody says which cgroup this process is in.
[[nodiscard]] std::vector<hierarchy> hierarchies_of(std::string_view controller, const platform::files& files);

}  // namespace numapool::cgroup
