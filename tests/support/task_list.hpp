// SPDX-License-Identifier: Apache-2.0
#pragma once

// The threads of this process as the kernel lists them.

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace numapool::test {

struct task {
  std::string name;
  std::string cpus;  ///< Cpus_allowed_list
};

/// Those whose name starts with `prefix`.
[[nodiscard]] inline std::vector<task> tasks_named(const std::string& prefix) {
  std::vector<task> found;
  std::error_code ended;  // threads may end while they are listed
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ended)) {
    task one;
    std::ifstream comm(entry.path() / "comm");
    std::getline(comm, one.name);
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Cpus_allowed_list:")) {
        one.cpus = line.substr(line.find_first_not_of(" \t", line.find(':') + 1));
      }
    }
    if (one.name.starts_with(prefix)) {
      found.push_back(one);
    }
  }
  return found;
}

}  // namespace numapool::test
