// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether memory is what was asked for, so that nobody is quick by leaving something out. Threads:
// safe.

#include <cstddef>
#include <optional>

#include <numapool/node.hpp>

namespace numapool::bench {

/// Throws std::runtime_error unless every page is resident and every byte zero. Reads all of it.
void check_resident_and_zero(const std::byte* data, std::size_t size_bytes);

/// Of 64 pages spread over it, the share that is on `node`; empty where the kernel does not say.
[[nodiscard]] std::optional<double> share_on_node(const std::byte* data, std::size_t size_bytes,
                                                  node_id node);

}  // namespace numapool::bench
