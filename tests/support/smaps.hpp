// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernel says of this process's memory, read independently of the library:
// /proc/self/smaps and status.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace numapool::test {

struct memory_area {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string permissions;  ///< "rw-p"
  std::map<std::string, std::uint64_t>
      bytes;          ///< by name: "Rss", "Locked", "AnonHugePages", "KernelPageSize"
  std::string flags;  ///< VmFlags, each with a blank before and after it
};

[[nodiscard]] inline std::vector<memory_area> read_smaps() {
  std::vector<memory_area> areas;
  std::ifstream file("/proc/self/smaps");
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char permissions[8] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &begin, &end, permissions) == 3) {
      areas.push_back({begin, end, permissions, {}, {}});
      continue;
    }
    const std::size_t colon = line.find(':');
    if (areas.empty() || colon == std::string::npos) {
      continue;
    }
    const std::string key = line.substr(0, colon);
    if (key == "VmFlags") {
      areas.back().flags = line.substr(colon + 1) + " ";
    } else {
      std::uint64_t kilobytes = 0;
      std::istringstream(line.substr(colon + 1)) >> kilobytes;
      areas.back().bytes[key] = kilobytes * 1024;
    }
  }
  return areas;
}

/// The areas that lie within the range, added up; `begin` and `end` are the first's and the last's.
[[nodiscard]] inline memory_area area_of(const void* data, std::size_t size_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  memory_area sum;
  for (const memory_area& area : read_smaps()) {
    if (area.begin < first || area.end > first + size_bytes) {
      continue;
    }
    if (sum.begin == 0) {
      sum = area;
      continue;
    }
    sum.end = area.end;
    for (const auto& [key, bytes] : area.bytes) {
      sum.bytes[key] += key == "KernelPageSize" || key == "MMUPageSize" ? 0 : bytes;
    }
  }
  return sum;
}

/// How many areas a forked child would not get ("dc"): in these tests, buffers and nothing else.
[[nodiscard]] inline std::size_t areas_kept_from_children() {
  std::size_t count = 0;
  for (const memory_area& area : read_smaps()) {
    if (area.flags.find(" dc ") != std::string::npos) {
      ++count;
    }
  }
  return count;
}

/// A figure of /proc/self/status in bytes: "VmRSS", "VmLck".
[[nodiscard]] inline std::uint64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) {
      std::uint64_t kilobytes = 0;
      std::istringstream(line.substr(key.size() + 1)) >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

}  // namespace numapool::test
