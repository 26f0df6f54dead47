// SPDX-License-Identifier: Apache-2.0
#include "topology/allowed.hpp"

#include <string>

#include <numapool/error.hpp>

#include "base/text.hpp"
#include "topology/cgroup.hpp"

namespace numapool {
namespace {

/// A list of /proc/self/status: "Cpus_allowed_list:   0-5".
template <typename Set>
std::optional<Set> status_list(const kernel_files& reader, const std::string& status, const std::string& key) {
  const auto value = kernel_files::value_of(status, key);
  if (!value) {
    return std::nullopt;
  }
  try {
    Set set = Set::parse_list(*value);
    return set.empty() ? std::nullopt : std::optional<Set>(std::move(set));
  } catch (const error& wrong) {
    reader.warn("/proc/self/status makes no sense at " + key + " " + wrong.what() + ".");
    return std::nullopt;
  }
}

template <typename Set>
void cut_by_cgroup(const kernel_files& reader, const std::string& things, const std::optional<Set>& cgroup,
                   std::optional<Set>& allowed) {
  if (!cgroup) {
    return;
  }
  if (!allowed) {
    allowed = cgroup;
  } else if (allowed->intersects(*cgroup)) {
    *allowed &= *cgroup;
  } else {
    reader.warn("The cpuset cgroup allows the " + things + " " + cgroup->to_list() +
                ", but the kernel lets this process use " + allowed->to_list() + ": the cgroup is passed over.");
  }
}

}  // namespace

allowed_sets read_allowed(const platform::files& files, const platform::threads* threads, const kernel_files& reader) {
  const std::string status = reader.text("/proc/self/status").value_or("");
  allowed_sets allowed;
  allowed.cpus = status_list<cpu_set>(reader, status, "Cpus_allowed_list:");
  allowed.nodes = status_list<node_set>(reader, status, "Mems_allowed_list:");
  cpu_set affinity;
  if (threads != nullptr && !threads->get_process_affinity(affinity) && !affinity.empty()) {
    allowed.cpus = affinity;  // the same by another way, which needs no /proc
  }
  const cgroup::cpuset limits = cgroup::read_cpuset(files, reader);
  cut_by_cgroup(reader, "CPUs", limits.cpus, allowed.cpus);
  cut_by_cgroup(reader, "nodes", limits.nodes, allowed.nodes);
  return allowed;
}

}  // namespace numapool
