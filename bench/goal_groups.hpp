// SPDX-License-Identifier: Apache-2.0
#pragma once

// The goals by what they are about.

#include <cstddef>
#include <memory>

#include "goal.hpp"

namespace numapool::bench {

/// Memory of `size_bytes` made resident, checked and given back.
[[nodiscard]] std::unique_ptr<goal_group> make_memory_goals(std::size_t size_bytes);
/// Empty jobs.
[[nodiscard]] std::unique_ptr<goal_group> make_dispatch_goals();

}  // namespace numapool::bench
