// SPDX-License-Identifier: Apache-2.0
#pragma once

// What several tests of the pool need.

#include <algorithm>
#include <future>
#include <latch>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "support/fake_machine.hpp"

namespace numapool::test {

inline request ask(node_id node, std::size_t size_bytes = 4 * mib) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node;
  return what;
}

template <typename Function>
failure failure_of(Function&& function) {
  try {
    function();
  } catch (const error& thrown) {
    EXPECT_EQ(thrown.code(), thrown.why().code);
    EXPECT_STREQ(thrown.what(), thrown.why().message.c_str());
    return thrown.why();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline const node_stats& stats_of(const pool_stats& all, node_id node) {
  const auto found =
      std::find_if(all.nodes.begin(), all.nodes.end(), [node](const node_stats& one) { return one.node == node; });
  EXPECT_NE(found, all.nodes.end());
  return *found;
}

/// A worker that is kept busy until it is let go.
class held_worker {
 public:
  held_worker(worker_pool& pool, node_id node)
      : done_(pool.submit(
            node,
            [this] {
              running_.count_down();
              may_end_.wait();
            },
            boost::asio::use_future)) {
    running_.wait();
  }
  ~held_worker() { let_go(); }
  held_worker(const held_worker&) = delete;
  held_worker& operator=(const held_worker&) = delete;
  void let_go() {
    if (done_.valid()) {
      may_end_.count_down();
      done_.get();
    }
  }

 private:
  std::latch running_{1};
  std::latch may_end_{1};
  std::future<void> done_;
};

inline worker_pool_options one_worker() {
  worker_pool_options options;
  options.workers_per_node = 1;
  return options;
}

}  // namespace numapool::test
