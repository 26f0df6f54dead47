// SPDX-License-Identifier: Apache-2.0
#include "topology/topology_builder.hpp"

#include <string>
#include <utility>
#include <vector>

#include <numapool/error.hpp>

#include "base/failures.hpp"
#include "topology/cgroup.hpp"
#include "topology/node_files.hpp"
#include "topology/online_cpus.hpp"
#include "topology/topology_state.hpp"

namespace numapool {

topology topology_builder::read(const platform::files& files, const platform::threads* threads) {
  topology_builder builder(files);
  const kernel_files& reader = builder.reader_;
  const std::optional<cpu_set> online = read_online_cpus(reader);
  const allowed_sets allowed = read_allowed(files, threads, reader);
  listed_nodes listed = read_nodes(reader, online);
  builder.state_->nodes = std::move(listed.nodes);
  builder.set_cpus(online, allowed);
  builder.check_is_usable();
  name_gpu_nodes(reader, builder.state_->nodes);
  builder.make_nodes_if_none();
  builder.allow(allowed, listed.without_memory);
  builder.state_->cpu_quota = cgroup::read_cpu_quota(files, reader);
  builder.find_contradictions();
  return topology(std::move(builder.state_));
}

topology_builder::topology_builder(const platform::files& files)
    : files_(files), state_(std::make_unique<topology::state>()), reader_(files, state_->warnings) {
  state_->is_this_machine = files.is_this_machine();
}

void topology_builder::set_cpus(const std::optional<cpu_set>& online, const allowed_sets& allowed) {
  if (online) {
    state_->online_cpus = *online;
  } else {
    for (const node_info& node : state_->nodes) {
      state_->online_cpus |= node.cpus;
    }
    if (state_->online_cpus.empty() && allowed.cpus) {
      state_->online_cpus = *allowed.cpus;  // what we may run on is there
    }
    reader_.warn("Nothing says which CPUs are online: those that are listed are taken for it.");
  }
  state_->allowed_cpus = state_->online_cpus;
  if (allowed.cpus) {
    state_->allowed_cpus &= *allowed.cpus;
  }
  if (state_->allowed_cpus.empty() && !state_->online_cpus.empty()) {
    reader_.warn("None of the CPUs that this process may run on (" + allowed.cpus->to_list() + ") is online (" +
                 state_->online_cpus.to_list() + ").");
  }
}

void topology_builder::make_nodes_if_none() {
  if (!state_->nodes.empty()) {
    return;
  }
  state_->source = topology_source::synthetic;
  state_->nodes.push_back(make_synthetic_node(reader_, state_->allowed_cpus));
  reader_.warn("The kernel shows no NUMA nodes here: all CPUs and memory are taken as node 0, made up.");
}

void topology_builder::check_is_usable() const {
  if (!state_->nodes.empty() || !state_->online_cpus.empty()) {
    return;
  }
  const std::string folder = "/sys/devices/system/node";
  std::vector<std::string> names;
  base::raise(
      base::make_failure(errc::topology_unavailable, operation::read_topology,
                         "neither NUMA nodes nor CPUs could be read: " + folder +
                             " has no nodes, and neither /sys nor /proc names a CPU; check that the root is right "
                             "and that /sys and /proc are mounted",
                         files_.list_directory(folder, names)));
}

void topology_builder::allow(const allowed_sets& allowed, const node_set& without_memory) {
  for (node_info& node : state_->nodes) {
    node.usable_cpus = node.cpus & state_->allowed_cpus;
    const bool is_made_up = state_->source == topology_source::synthetic;
    const bool is_permitted = is_made_up || !allowed.nodes || allowed.nodes->contains(node.id);
    // A node without memory gives none, although the kernel's lists may name it.
    node.allowed_memory = is_permitted && !without_memory.contains(node.id);
    if (node.allowed_memory) {
      state_->allowed_nodes.insert(node.id);
    }
  }
}

void topology_builder::find_contradictions() const {
  cpu_set seen;
  cpu_set shared;
  for (const node_info& node : state_->nodes) {
    shared |= seen & node.cpus;
    seen |= node.cpus;
  }
  if (!shared.empty()) {
    node_set claiming;
    for (const node_info& node : state_->nodes) {
      if (node.cpus.intersects(shared)) {
        claiming.insert(node.id);
      }
    }
    reader_.warn("The firmware lists the CPUs " + shared.to_list() + " under several nodes (" + claiming.to_list() +
                 "): a CPU's node is the lowest of them.");
  }
  const cpu_set homeless = state_->online_cpus - seen;
  if (!homeless.empty() && state_->source == topology_source::sysfs) {
    reader_.warn("The online CPUs " + homeless.to_list() + " belong to no node.");
  }
}

}  // namespace numapool
