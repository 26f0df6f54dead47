// SPDX-License-Identifier: Apache-2.0
#include "blocks/memory_pressure.hpp"

#include <charconv>
#include <string_view>

#include "topology/cgroup_folders.hpp"

namespace numapool::blocks {

memory_pressure::memory_pressure(const platform::files& files) : files_(files) {
  std::string ignored;
  for (const cgroup::hierarchy& tree : cgroup::hierarchies_of("memory", files)) {
    const std::string own = tree.folders.front() + "/memory.pressure";
    if (tree.version == cgroup::version::v2 && !files.read_text(own, ignored)) {
      path_ = own;
      return;
    }
  }
  path_ = "/proc/pressure/memory";
}

double memory_pressure::some_percent(clock::time_point now) {
  if (now >= next_look_) {
    next_look_ = now + std::chrono::seconds(1);
    std::string text;
    last_ = files_.read_text(path_, text) ? 0 : parse_some_avg10(text);
  }
  return last_;
}

double parse_some_avg10(std::string_view text) {
  constexpr std::string_view key = "some avg10=";
  const std::size_t found = text.find(key);
  double percent = 0;
  if (found != std::string_view::npos) {
    text.remove_prefix(found + key.size());
    std::from_chars(text.data(), text.data() + text.size(), percent);
  }
  return percent;
}

}  // namespace numapool::blocks
