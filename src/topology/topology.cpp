// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "base/failures.hpp"
#include "base/mutex.hpp"
#include "platform/platform.hpp"
#include "topology/topology_builder.hpp"
#include "topology/topology_state.hpp"

namespace numapool {
namespace {

/// Never destroyed: buffers and pools outlive static objects.
struct system_cache {
  base::mutex mutex;
  std::shared_ptr<const topology> kept NUMAPOOL_GUARDED_BY(mutex);
};

system_cache& cache() {
  static auto* const instance = new system_cache;
  return *instance;
}

/// The node that `is_wanted` nearest to `from`, not `from` itself.
template <typename IsWanted>
node_id nearest(const std::vector<node_info>& nodes, const node_info& from, IsWanted is_wanted) {
  node_id best;
  std::uint64_t best_distance = UINT64_MAX;
  for (const node_info& node : nodes) {  // by ascending id: the first of equals is the lowest
    if (!is_wanted(node)) {
      continue;
    }
    const auto listed = std::find_if(from.distances.begin(), from.distances.end(),
                                     [&node](const node_distance& d) { return d.to == node.id; });
    const bool is_listed = listed != from.distances.end();
    const std::uint64_t distance = is_listed ? listed->distance : UINT64_MAX - 1;
    if (distance < best_distance) {
      best = node.id;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::string_view name(node_kind kind) noexcept {
  switch (kind) {
    case node_kind::cpu_and_memory:
      return "cpu+memory";
    case node_kind::cpu_only:
      return "cpu-only";
    case node_kind::memory_only:
      return "memory-only";
    case node_kind::empty:
      return "empty";
  }
  return "unknown";
}

std::string_view name(topology_source source) noexcept {
  return source == topology_source::sysfs ? "sysfs" : "synthetic";
}

topology topology::read(const topology_options& options) {
  if (options.root.empty()) {
    const platform::platform& machine = platform::this_machine();
    return topology_builder::read(machine.files, &machine.threads);
  }
  return topology_builder::read(*platform::files_below(options.root), nullptr);
}

topology topology::read(const topology_options& options, boost::system::error_code& error) {
  return base::catch_error(error, topology(std::make_unique<const state>()), [&options] { return read(options); });
}

std::shared_ptr<const topology> topology::system() {
  system_cache& system = cache();
  {
    const base::lock_guard lock(system.mutex);
    if (system.kept != nullptr) {
      return system.kept;
    }
  }
  // Not under the lock: a process forked meanwhile would find it locked for ever.
  auto fresh = std::make_shared<const topology>(read());
  const base::lock_guard lock(system.mutex);
  if (system.kept == nullptr) {
    system.kept = std::move(fresh);
  }
  return system.kept;
}

std::shared_ptr<const topology> topology::system(boost::system::error_code& error) {
  return base::catch_error(error, std::shared_ptr<const topology>(), [] { return system(); });
}

topology::topology(std::unique_ptr<const state> read) noexcept : state_(std::move(read)) {}
topology::topology(topology&&) noexcept = default;
topology& topology::operator=(topology&&) noexcept = default;
topology::~topology() = default;

std::span<const node_info> topology::nodes() const noexcept {
  return state_->nodes;
}

const node_info* topology::find(node_id node) const noexcept {
  const auto at = std::lower_bound(state_->nodes.begin(), state_->nodes.end(), node,
                                   [](const node_info& a, node_id b) { return a.id < b; });
  return at != state_->nodes.end() && at->id == node ? &*at : nullptr;
}

node_id topology::node_of_cpu(cpu_id cpu) const noexcept {
  for (const node_info& node : state_->nodes) {
    if (node.cpus.contains(cpu)) {
      return node.id;
    }
  }
  return node_id::unknown;
}

const cpu_set* topology::cpus_of_node(node_id node) const noexcept {
  const node_info* const found = find(node);
  return found != nullptr ? &found->cpus : nullptr;
}

std::size_t topology::node_count() const noexcept {
  return state_->nodes.size();
}

std::size_t topology::cpu_node_count() const noexcept {
  return static_cast<std::size_t>(std::count_if(state_->nodes.begin(), state_->nodes.end(),
                                                [](const node_info& node) { return !node.cpus.empty(); }));
}

bool topology::is_single_node() const noexcept {
  return cpu_node_count() <= 1;
}

std::optional<std::uint32_t> topology::distance(node_id from, node_id to) const noexcept {
  if (const node_info* const found = find(from)) {
    for (const node_distance& listed : found->distances) {
      if (listed.to == to) {
        return listed.distance;
      }
    }
  }
  return std::nullopt;
}

node_id topology::nearest_usable_node(node_id from) const noexcept {
  const auto is_usable = [](const node_info& node) {
    return !node.usable_cpus.empty();
  };
  const node_info* const start = find(from);
  if (start == nullptr) {
    return node_id::unknown;
  }
  return is_usable(*start) ? from : nearest(state_->nodes, *start, is_usable);
}

node_id topology::nearest_memory_node(node_id from) const noexcept {
  const auto has_memory = [](const node_info& node) {
    return node.allowed_memory;
  };
  const node_info* const start = find(from);
  if (start == nullptr) {
    return node_id::unknown;
  }
  return has_memory(*start) ? from : nearest(state_->nodes, *start, [&](const node_info& node) {
    return has_memory(node) && !node.gpu_pci_address;
  });
}

const cpu_set& topology::online_cpus() const noexcept {
  return state_->online_cpus;
}
const cpu_set& topology::allowed_cpus() const noexcept {
  return state_->allowed_cpus;
}
const node_set& topology::allowed_nodes() const noexcept {
  return state_->allowed_nodes;
}
std::optional<double> topology::cpu_quota() const noexcept {
  return state_->cpu_quota;
}
topology_source topology::source() const noexcept {
  return state_->source;
}
bool topology::is_this_machine() const noexcept {
  return state_->is_this_machine;
}
std::span<const std::string> topology::warnings() const noexcept {
  return state_->warnings;
}

}  // namespace numapool
