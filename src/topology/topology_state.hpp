// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a topology holds.

#include <optional>
#include <string>
#include <vector>

#include <numapool/node.hpp>
#include <numapool/topology.hpp>

namespace numapool {

struct topology::state {
  std::vector<node_info> nodes;  // by ascending id
  cpu_set online_cpus;
  cpu_set allowed_cpus;
  node_set allowed_nodes;
  std::optional<double> cpu_quota;
  topology_source source = topology_source::sysfs;
  bool is_this_machine = false;
  std::vector<std::string> warnings;
};

}  // namespace numapool
