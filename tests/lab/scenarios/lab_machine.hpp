// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the lab says of the guest that this program runs in: what was asked for, to be compared with
// what is there. Threads: any thread, at any time.

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <numapool/node.hpp>

namespace numapool::tests {

inline node_set lab_nodes(const char* variable) {
  const char* list = std::getenv(variable);
  if (list == nullptr) {
    ADD_FAILURE() << "this runs in a guest of tests/lab alone: " << variable << " is not set";
    return {};
  }
  return node_set::parse_list(list);
}

/// The nodes that the guest's topology gives memory.
inline node_set lab_nodes_with_memory() {
  return lab_nodes("NUMAPOOL_LAB_NODES_WITH_MEMORY");
}

/// The nodes that the guest's topology gives CPUs.
inline node_set lab_nodes_with_cpus() {
  return lab_nodes("NUMAPOOL_LAB_NODES_WITH_CPUS");
}

}  // namespace numapool::tests
