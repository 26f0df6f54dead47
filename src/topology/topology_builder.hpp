// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a topology through the seam, so that a recorded machine and a fake read as the real one
// does.

#include <memory>
#include <optional>

#include <numapool/node.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"
#include "topology/allowed.hpp"
#include "topology/kernel_files.hpp"

namespace numapool {

class topology_builder {
 public:
  /// `threads` is null for a recorded machine. Throws as topology::read does.
  [[nodiscard]] static topology read(const platform::files& files, const platform::threads* threads);

 private:
  explicit topology_builder(const platform::files& files);
  void set_cpus(const std::optional<cpu_set>& online, const allowed_sets& allowed);
  void make_nodes_if_none();
  void allow(const allowed_sets& allowed, const node_set& without_memory);
  void find_contradictions() const;
  void check_is_usable() const;

  const platform::files& files_;
  std::unique_ptr<topology::state> state_;
  kernel_files reader_;
};

}  // namespace numapool
