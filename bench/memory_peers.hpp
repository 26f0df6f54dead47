// SPDX-License-Identifier: Apache-2.0
#pragma once

// Other ways to get memory of a node that is resident and zero, each as its users would write it.
// The caller's thread is on the node: for those that take no node, that is what places the pages.

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <numapool/node.hpp>

#include "peer_report.hpp"

namespace numapool::bench {

/// Memory of a peer, which gets it back when the last copy goes.
struct block {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
};

/// Throws std::bad_alloc when `data` is null: the peer had none.
template <typename Free>
block block_of(void* data, Free free) {
  if (data == nullptr) {
    throw std::bad_alloc();
  }
  return {std::shared_ptr<void>(data, free), static_cast<std::byte*>(data)};
}

/// Threads: one caller at a time.
struct memory_peer {
  std::string name;
  /// Resident and zero. Throws std::exception.
  std::function<block(std::size_t size_bytes)> allocate;
  /// Gives back to the kernel what the peer kept of freed memory, so that the next is not a used
  /// one; empty where nothing is kept.
  std::function<void()> settle;
};
using memory_peers = std::vector<memory_peer>;

/// The kernel alone, by one thread: mmap and MADV_POPULATE_WRITE.
void add_kernel_calls(memory_peers& peers);
/// Those that take a node: libnuma, hwloc, memkind's kinds.
void add_node_libraries(memory_peers& peers, node_id node, peer_report& report);
/// Those that replace malloc elsewhere, here by names of their own: mimalloc, jemalloc, oneTBB's.
void add_general_allocators(memory_peers& peers, peer_report& report);

}  // namespace numapool::bench
