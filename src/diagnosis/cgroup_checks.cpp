// SPDX-License-Identifier: Apache-2.0

// The limits of this process's cgroups.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "diagnosis/checks.hpp"
#include "topology/cgroup.hpp"

namespace numapool::diagnosis {
namespace {

std::string decimal(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::uint64_t host_memory_bytes(const topology& nodes) {
  std::uint64_t bytes = 0;
  for (const node_info& node : nodes.nodes()) {
    bytes += node.gpu_pci_address ? 0 : node.memory_bytes;
  }
  return bytes;
}

void check_memory(examination& job) {
  bool is_limited = false;
  for (const cgroup::memory_limit& limit : cgroup::memory_limits(job.machine().files)) {
    const std::uint64_t machine = host_memory_bytes(job.nodes());
    if (machine != 0 && limit.limit_bytes >= machine) {
      continue;  // it takes nothing away
    }
    is_limited = true;
    job.add(
        {"cgroup_memory", check_status::warn,
         byte_text(limit.limit_bytes) + ", " + byte_text(limit.usage_bytes) + " used",
         "pinned memory counts, and a request beyond the limit of " + limit.path + " is refused",
         "raise its memory.max (docker: --memory; Kubernetes: the memory limit) or ask for "
         "less"});
  }
  if (!is_limited) {
    job.add({"cgroup_memory", check_status::ok, "no limit", "the nodes' memory is the limit", ""});
  }
}

}  // namespace

void check_cgroups(examination& job) {
  check_memory(job);
  const auto quota = job.nodes().cpu_quota();
  const auto allowed = static_cast<double>(job.nodes().allowed_cpus().size());
  if (!quota || *quota >= allowed) {
    job.add({"cgroup_cpu", check_status::ok, "no limit", "every allowed CPU can be used up", ""});
    return;
  }
  job.add({"cgroup_cpu", check_status::warn, decimal(*quota) + " CPUs",
           "a node gets at most that many workers, and all of them share that time",
           "raise cpu.max (docker: --cpus; Kubernetes: the CPU limit)"});
}

}  // namespace numapool::diagnosis
