// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a buffer says about itself, as plain values that outlive it, and the two renderings of
// several of them. The renderings are pure. Threads: values and free functions; safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <numapool/buffer.hpp>

namespace numapool::cli {

struct buffer_facts {
  std::uintptr_t address = 0;
  std::size_t requested_bytes = 0;
  std::size_t mapped_bytes = 0;
  node_id node_requested;
  numapool::node_source node_source = numapool::node_source::unknown;
  node_id node_reached;
  node_id node_of_workers;
  unsigned workers = 0;
  std::optional<int> device;
  numapool::route route = numapool::route::node_workers;
  numapool::placement placement;
  page_outcome pages;
  bind_outcome policy;
  pin_outcome pin;
  numapool::timings timings;
  std::vector<registration> registrations;
};

/// Requires: `from` holds memory.
[[nodiscard]] buffer_facts facts_of(const buffer& from);

[[nodiscard]] nlohmann::ordered_json allocation_json(long pid,
                                                     const std::vector<buffer_facts>& buffers);
/// One line a buffer, then one for each thing that degraded and why.
[[nodiscard]] std::string allocation_text(const std::vector<buffer_facts>& buffers);
/// A sentence for each step that gave less than was asked; empty when all is as asked.
[[nodiscard]] std::vector<std::string> degradations(const buffer_facts& buffer);

}  // namespace numapool::cli
