// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `numapool allocate` was asked for: the arguments as typed, and what they mean. Threads:
// values; safe.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <numapool/buffer.hpp>
#include <numapool/topology.hpp>

namespace numapool::cli {

/// The options' text; empty: not given.
struct allocate_arguments {
  std::optional<std::string> node;
  std::optional<std::string> device;
  bool all_nodes = false;
  std::optional<std::string> size;
  std::optional<std::string> count;
  std::optional<std::string> pages;
  std::optional<std::string> pin;
  std::optional<std::string> policy;
  std::optional<std::string> verify;
  std::optional<std::string> populate;
  std::optional<std::string> chunk;
  std::optional<std::string> threads;
  std::optional<std::string> timeout;
  std::optional<std::string> hold;
  bool json = false;
};

struct allocate_options {
  request what;  // with its node, if one was named
  std::optional<std::string> device;
  bool all_nodes = false;
  std::size_t count = 1;  // buffers on each node
  unsigned workers_per_node = 0;
  std::chrono::milliseconds hold{0};
};

/// Throws usage_error with a sentence that names the option and the text.
[[nodiscard]] allocate_options read_arguments(const allocate_arguments& typed);

/// One request a buffer, by ascending node.
/// Throws numapool::error (errc::node_not_allowed) when --all-nodes finds no node to take.
[[nodiscard]] std::vector<request> requests_of(const allocate_options& asked,
                                               const std::vector<node_info>& nodes);

}  // namespace numapool::cli
