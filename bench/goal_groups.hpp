// SPDX-License-Identifier: Apache-2.0
#pragma once

// The goals by what they are about.

#include <cstddef>
#include <memory>

#include "goal.hpp"

namespace numapool::bench {

class goal_pool;

/// Memory of `size_bytes` made resident and checked.
[[nodiscard]] std::unique_ptr<goal_group> make_memory_goals(
    const std::shared_ptr<goal_pool>& measured, std::size_t size_bytes);
/// What others feel of it, several requests at once, filling while registering, giving back.
[[nodiscard]] std::unique_ptr<goal_group> make_sharing_goals(
    const std::shared_ptr<goal_pool>& measured, std::size_t size_bytes);
/// Buffers that are used again.
[[nodiscard]] std::unique_ptr<goal_group> make_reuse_goals(
    const std::shared_ptr<goal_pool>& measured, std::size_t size_bytes);
/// Empty jobs.
[[nodiscard]] std::unique_ptr<goal_group> make_dispatch_goals();

}  // namespace numapool::bench
