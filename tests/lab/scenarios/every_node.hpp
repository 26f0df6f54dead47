// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one rule that holds on every machine and under every restriction, asked of each node in turn.

#include <numapool/worker_pool.hpp>

#include "lab/scenarios/guest.hpp"

namespace numapool::lab {

/// Asks `pool` for a buffer on each node of the guest, with each page kind and each policy, and
/// holds what comes against what the kernel's own files say must come:
///   workers    of the node, or of the nearest whose CPUs this process may use
///   pages      on the node, or (prefer) on the nearest whose memory it may take; strict: an error
///   policy none: pages where the workers are
/// `bind_works`: false where the kernel denies memory policies, so that first touch must do.
/// `witnesses`: how many of the three may speak here.
void serve_every_node(worker_pool& pool, const guest& here, bool bind_works = true,
                      std::size_t witnesses = 3);

}  // namespace numapool::lab
