// SPDX-License-Identifier: Apache-2.0
#include "topology/cgroup.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "topology/cgroup_folders.hpp"

namespace numapool::cgroup {
namespace {

using names = std::span<const std::string_view>;

/// The set of the innermost folder that has one. An empty file means that nothing is configured
/// there (version 1), or that the level has lent everything away (version 2): the parent's set then
/// says more.
template <typename Set, typename Read>
std::optional<Set> innermost_set(const std::vector<std::string>& folders, names files, Read read) {
  for (const std::string& folder : folders) {
    for (std::string_view name : files) {
      std::optional<Set> set = read(base::join_path(folder, name));
      if (set && !set->empty()) {
        return set;
      }
    }
  }
  return std::nullopt;
}

template <typename Set>
void cut(std::optional<Set>& whole, const std::optional<Set>& by) {
  if (by) {
    whole = whole ? *whole & *by : *by;
  }
}

/// cpu.max: "max 100000" or "150000 100000", both in microseconds.
std::optional<double> read_cpu_max(const std::string& folder, const kernel_files& reader) {
  const std::optional<std::string> text = reader.text(folder + "/cpu.max");
  if (!text) {
    return std::nullopt;
  }
  const std::vector<std::string_view> fields = base::fields_of(*text);
  if (!fields.empty() && fields.front() == "max") {
    return std::nullopt;
  }
  constexpr std::uint64_t default_period = 100'000;
  const auto quota = fields.empty() ? std::nullopt : base::parse_unsigned(fields[0]);
  const auto period = fields.size() < 2 ? default_period : base::parse_unsigned(fields[1]);
  if (!quota || !period || *period == 0) {
    reader.warn(folder + "/cpu.max makes no sense: " + base::quoted(base::trimmed(*text)) + ".");
    return std::nullopt;
  }
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// cpu.cfs_quota_us is -1 without a quota.
std::optional<double> read_cfs_quota(const std::string& folder, const kernel_files& reader) {
  const std::optional<std::string> text = reader.text(folder + "/cpu.cfs_quota_us");
  if (!text || base::trimmed(*text).starts_with('-')) {
    return std::nullopt;
  }
  const auto quota = reader.number(folder + "/cpu.cfs_quota_us");
  const auto period = reader.number(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *period == 0) {
    return std::nullopt;
  }
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

struct memory_names {
  std::string_view limit;
  std::string_view usage;
  std::array<std::string_view, 2> file_cache;  // lines of memory.stat
};

const memory_names& names_of(version of) {
  static constexpr memory_names v1{"memory.limit_in_bytes",
                                   "memory.usage_in_bytes",
                                   {"total_inactive_file ", "total_active_file "}};
  static constexpr memory_names v2{
      "memory.max", "memory.current", {"inactive_file ", "active_file "}};
  return of == version::v1 ? v1 : v2;
}

/// Empty where `text`, the file with the limit, has none.
std::optional<memory_limit> read_memory_limit(version of, const std::string& folder,
                                              std::string_view text, const kernel_files& reader) {
  // Version 1 writes "no limit" as the largest number of pages: 2^60 is far below it and far above
  // any machine.
  constexpr std::uint64_t no_limit = std::uint64_t{1} << 60U;
  const auto limit = base::parse_unsigned(base::trimmed(text));
  if (!limit || *limit >= no_limit) {
    return std::nullopt;  // "max" is no number
  }
  const memory_names& file = names_of(of);
  memory_limit found{folder, *limit, 0, 0};
  found.usage_bytes = reader.number(folder + "/" + std::string(file.usage)).value_or(0);
  const std::string statistics = reader.text(folder + "/memory.stat").value_or("");
  for (std::string_view key : file.file_cache) {
    const auto value = kernel_files::value_of(statistics, key);
    found.reclaimable_bytes += value ? base::parse_unsigned(*value).value_or(0) : 0;
  }
  return found;
}

}  // namespace

cpuset read_cpuset(const platform::files& files, const kernel_files& reader) {
  // Version 1: what was configured, and only without that what is in effect. Recordings exist where
  // the second is stale after hotplug; on a running machine the affinity cuts by what is in effect
  // anyway. Names without "cpuset." are those of mounts with the option noprefix.
  static constexpr std::array<std::string_view, 4> v1_cpus{
      "cpuset.cpus", "cpus", "cpuset.effective_cpus", "effective_cpus"};
  static constexpr std::array<std::string_view, 4> v1_nodes{
      "cpuset.mems", "mems", "cpuset.effective_mems", "effective_mems"};
  static constexpr std::array<std::string_view, 1> v2_cpus{"cpuset.cpus.effective"};
  static constexpr std::array<std::string_view, 1> v2_nodes{"cpuset.mems.effective"};
  const auto read_cpus = [&](const std::string& path) {
    return reader.cpu_list(path);
  };
  const auto read_nodes = [&](const std::string& path) {
    return reader.node_list(path);
  };
  cpuset found;
  for (const hierarchy& tree : hierarchies_of("cpuset", files)) {
    const bool is_v1 = tree.version == version::v1;
    const names cpus = is_v1 ? names(v1_cpus) : names(v2_cpus);
    const names nodes = is_v1 ? names(v1_nodes) : names(v2_nodes);
    cut(found.cpus, innermost_set<cpu_set>(tree.folders, cpus, read_cpus));
    cut(found.nodes, innermost_set<node_set>(tree.folders, nodes, read_nodes));
  }
  return found;
}

std::optional<double> read_cpu_quota(const platform::files& files, const kernel_files& reader) {
  std::optional<double> smallest;
  for (const hierarchy& tree : hierarchies_of("cpu", files)) {
    for (const std::string& folder : tree.folders) {
      const auto quota = tree.version == version::v2 ? read_cpu_max(folder, reader)
                                                     : read_cfs_quota(folder, reader);
      if (quota) {
        smallest = std::min(smallest.value_or(*quota), *quota);
      }
    }
  }
  return smallest;
}

std::vector<memory_limit> memory_limits(const platform::files& files) {
  return memory_limit_reader(files).read();
}

std::vector<memory_limit> memory_limit_reader::read() {
  std::string memberships;
  const bool is_unknown = files_.read_text("/proc/self/cgroup", memberships).failed();
  if (is_unknown || levels_.empty() || memberships != memberships_) {
    memberships_ = std::move(memberships);
    find_levels();
  }
  if (auto limits = read_levels()) {
    return std::move(*limits);
  }
  find_levels();
  return read_levels().value_or(std::vector<memory_limit>());
}

void memory_limit_reader::find_levels() {
  levels_.clear();
  for (hierarchy& tree : hierarchies_of("memory", files_)) {
    for (std::string& folder : tree.folders) {
      levels_.push_back({tree.version, std::move(folder), false});
    }
  }
}

// Empty where a file is gone that was there before: the cgroups have been mounted anew.
std::optional<std::vector<memory_limit>> memory_limit_reader::read_levels() {
  std::vector<std::string> ignored;  // a limit that cannot be read is found by the kernel instead
  const kernel_files reader(files_, ignored);
  std::vector<memory_limit> limits;
  for (level& one : levels_) {
    const auto text = reader.text(one.folder + "/" + std::string(names_of(one.of).limit));
    if (one.has_limit_file && !text) {
      return std::nullopt;
    }
    one.has_limit_file = text.has_value();
    if (auto limit = text ? read_memory_limit(one.of, one.folder, *text, reader) : std::nullopt) {
      limits.push_back(std::move(*limit));
    }
  }
  return limits;
}

}  // namespace numapool::cgroup
