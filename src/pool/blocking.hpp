// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numapool/buffer.hpp>

#include "pool/pool_core.hpp"

namespace numapool::detail {

/// Allocates and waits. The result is empty and has why() on an error, errc::called_from_worker
/// among them.
[[nodiscard]] buffer allocate_and_wait(pool_core& pool, const request& what, numapool::route route);

}  // namespace numapool::detail
