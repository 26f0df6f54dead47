// SPDX-License-Identifier: Apache-2.0
#include "blocks/memory_pressure.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.hpp"
#include "topology/cgroup_folders.hpp"

namespace numapool::blocks {
namespace {

std::optional<double> read_pressure_file(const platform::files& files, const std::string& path) {
  std::string text;
  return files.read_text(path, text) ? std::nullopt : some_average_10(text);
}

}  // namespace

std::optional<double> some_average_10(std::string_view text) noexcept {
  constexpr std::string_view prefix = "some avg10=";
  if (!text.starts_with(prefix)) {
    return std::nullopt;
  }
  text.remove_prefix(prefix.size());
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const bool is_number = error == std::errc() && percent >= 0 && percent <= 100;
  return is_number ? std::optional(percent) : std::nullopt;
}

std::optional<double> read_memory_pressure(const platform::files& files) {
  std::optional<double> largest = read_pressure_file(files, "/proc/pressure/memory");
  for (const cgroup::hierarchy& tree : cgroup::hierarchies_of("memory", files)) {
    if (tree.version != cgroup::version::v2 || tree.folders.empty()) {
      continue;  // version 1 has no such file
    }
    const auto own =
        read_pressure_file(files, base::join_path(tree.folders.front(), "memory.pressure"));
    if (own) {
      largest = std::max(largest.value_or(0), *own);
    }
  }
  return largest;
}

}  // namespace numapool::blocks
