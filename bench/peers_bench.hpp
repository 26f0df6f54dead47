// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two halves of numapool_peers_bench, and what they have in common.

#include <memory>

#include <numapool/node.hpp>

#include "peer_report.hpp"

namespace numapool::bench {

/// Both register benchmarks and return their contenders, which must live until those have run. The
/// caller's thread is on `node`, on the CPUs `cpus`. Throw std::exception.
[[nodiscard]] std::shared_ptr<void> register_memory_peers(node_id node, const cpu_set& cpus,
                                                          peer_report& report);
[[nodiscard]] std::shared_ptr<void> register_dispatch_peers(node_id node, const cpu_set& cpus,
                                                            peer_report& report);

}  // namespace numapool::bench
