// SPDX-License-Identifier: Apache-2.0
#pragma once

// The original's shape in its own language: rust_original/src/lib.rs, seen from here. Only what was
// built where CMake found cargo may call it.

#include <cstddef>
#include <memory>

#include <numapool/node.hpp>

#include "memory_peers.hpp"

struct rust_original_worker;  // Rust's

namespace numapool::bench {

/// Threads: every member may be called by any thread. It must outlive its blocks' use, not the
/// blocks.
class rust_original {
 public:
  /// Starts the worker, pinned to `cpus` where that is possible. Throws std::runtime_error.
  explicit rust_original(const cpu_set& cpus);

  /// Blocks until the worker has mapped and touched it. Throws std::system_error.
  [[nodiscard]] block allocate(std::size_t size_bytes);
  /// Asks for nothing `count` times, then waits for every answer. Throws std::runtime_error.
  void ask(std::size_t count);
  /// Asks for nothing `count` times, then waits for the last answer. Throws std::runtime_error.
  void post(std::size_t count);

 private:
  std::unique_ptr<rust_original_worker, void (*)(rust_original_worker*)> worker_;
};

}  // namespace numapool::bench
