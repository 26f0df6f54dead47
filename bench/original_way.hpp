// SPDX-License-Identifier: Apache-2.0
#pragma once

// The way that numapool replaces, in its own shape and written anew: one worker thread a node
// behind a channel, which
// touches one byte of every base page, then answers through a promise. What a benchmark of ours is
// compared with.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include <numapool/node.hpp>

#include "region.hpp"

namespace numapool::bench {

/// Threads: every member may be called by any thread.
///
/// Where it differs from the original: the memory is mmap's under MADV_NOHUGEPAGE instead of the
/// driver's, so that it
/// runs without a GPU and its pages are base pages whatever the machine's huge page mode; and it is
/// unmapped by its
/// owner, not by hand.
class original_way {
 public:
  /// Starts the worker, pinned to `node` where that is possible; where not it works on, as the
  /// original does.
  explicit original_way(node_id node);
  ~original_way();
  original_way(const original_way&) = delete;
  original_way& operator=(const original_way&) = delete;

  /// Blocks until the worker has mapped and touched it. Throws std::system_error.
  [[nodiscard]] region allocate(std::size_t size_bytes);
  /// The channel and the promise alone: a request for nothing.
  [[nodiscard]] std::future<region> ask_for_nothing();

 private:
  struct message {
    std::size_t size_bytes = 0;
    std::promise<region> reply;
  };

  std::future<region> send(std::size_t size_bytes);
  void work(node_id node);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<message> channel_;
  bool is_closed_ = false;
  std::thread worker_;  // last: it uses the others
};

}  // namespace numapool::bench
