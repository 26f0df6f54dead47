// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a comparison with others must say beside its times: who took part, and who did not, and why.
// Threads: distinct objects are safe.

#include <string>
#include <vector>

namespace numapool::bench {

struct peer_report {
  std::vector<std::string> versions;  // "hwloc 2.9.0"
  std::vector<std::string> missing;   // "memkind (not built in: third_party/install peers)"

  void note_missing(const std::string& name, const std::string& why) {
    missing.push_back(name + " (" + why + ")");
  }
  /// For what CMake did not find.
  void note_not_built_in(const std::string& name, const std::string& group) {
    note_missing(name, "not built in: third_party/install " + group);
  }
};

}  // namespace numapool::bench
