// SPDX-License-Identifier: Apache-2.0
#pragma once

// The front that the gate rules: pinned host memory for a device, through the node workers when
// DYN_KVBM_ENABLE_NUMA says so (environment.hpp), past them otherwise.

#include <cstddef>
#include <optional>

#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>

namespace numapool {

class worker_pool;

/// `size_bytes` of zeroed, pinned memory for the process-local CUDA ordinal `device`.
///
/// With the gate on and the device's node known: as worker_pool::allocate_pinned_for_gpu; its failure is this call's
/// failure. With the gate off, no device, or the node unknown: the plain path, pinned just the same but with no node
/// asked for, no policy and no verification, by threads that are not pinned; buffer::route() says which.
/// Errors: those of worker_pool::allocate. Blocks. Threads: safe.
[[nodiscard]] buffer make_pinned_storage(std::size_t size_bytes, std::optional<int> device = {});
[[nodiscard]] buffer make_pinned_storage(std::size_t size_bytes, std::optional<int> device,
                                         boost::system::error_code& error);
/// The same through a pool of the caller's choice instead of worker_pool::global().
[[nodiscard]] buffer make_pinned_storage(worker_pool& pool, std::size_t size_bytes, std::optional<int> device = {});

}  // namespace numapool
