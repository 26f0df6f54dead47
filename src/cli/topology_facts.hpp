// SPDX-License-Identifier: Apache-2.0
#pragma once

// A machine as plain values, and its three renderings. The renderings are pure: they read nothing
// but their argument. Threads: values and free functions; safe.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <numapool/topology.hpp>

namespace numapool::cli {

struct topology_facts {
  std::vector<node_info> nodes;  // by ascending id
  cpu_set online_cpus;
  cpu_set allowed_cpus;
  node_set allowed_nodes;
  std::size_t cpu_nodes = 0;
  bool single_node = false;
  std::optional<double> cpu_quota;
  topology_source source = topology_source::sysfs;
  std::vector<std::string> warnings;
};

[[nodiscard]] topology_facts facts_of(const topology& machine);

/// The distance that the node's firmware gives; empty when it gives none.
[[nodiscard]] std::optional<std::uint32_t> distance_to(const node_info& from, node_id to) noexcept;

/// "the memory of nodes 0-1", "no memory".
[[nodiscard]] std::string usable_memory(const topology_facts& machine);

[[nodiscard]] nlohmann::ordered_json topology_json(const topology_facts& machine);
[[nodiscard]] std::string topology_text(const topology_facts& machine);
/// A complete SVG document that follows the viewer's light or dark preference.
[[nodiscard]] std::string topology_svg(const topology_facts& machine);

}  // namespace numapool::cli
