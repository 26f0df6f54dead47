// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "pool/pool_core.hpp"

namespace numapool::blocks {

/// Zeroes memory that is resident on `node`: little of it in the caller, much of it by the node's
/// workers, in pieces among those of other works; in the caller too where it is a worker or there
/// are none. Returns when it is done.
void zero(detail::pool_core& pool, node_id node, std::byte* data, std::size_t size_bytes) noexcept;

}  // namespace numapool::blocks
