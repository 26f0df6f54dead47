// SPDX-License-Identifier: Apache-2.0

// An empty job, given to one other thread: there and back, many at once, and posted without
// waiting; by the pool, by the original's way in C++ and in Rust, and by others' pools.
//
// Between parked threads a round trip is quick where the kernel puts both on one CPU, and slow
// where the other's CPU sleeps first: several times apart, by luck of each repetition. Hence the
// spreads.

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <numapool/worker_pool.hpp>

#include "dispatch_peers.hpp"
#include "dispatch_shapes.hpp"
#include "futex_echo.hpp"
#include "original_way.hpp"
#include "peers_bench.hpp"

#if NUMAPOOL_PEER_RUST
#include "rust_original.hpp"
#endif

namespace numapool::bench {
namespace {

worker_pool_options one_worker(std::chrono::microseconds worker_spin,
                               std::chrono::microseconds caller_spin) {
  worker_pool_options options;
  options.workers_per_node = 1;
  options.worker_spin = worker_spin;
  options.caller_spin = caller_spin;
  return options;
}

void add_pool(dispatch_peers& peers, const std::string& name, node_id node,
              const worker_pool_options& options) {
  const auto pool = std::make_shared<worker_pool>(options);
  const auto executor = pool->executor(node);
  peers.push_back({name, [pool, node] { pool->submit(node, [] {}); },
                   [pool, executor] {
                     await_many<std::future<void>>([&executor] {
                       return boost::asio::post(executor, boost::asio::use_future);
                     });
                   },
                   [pool, executor] {
                     post_many(executor);
                   }});
}

void add_originals(dispatch_peers& peers, node_id node, const cpu_set& cpus, peer_report& report) {
  const auto original = std::make_shared<original_way>(node);
  peers.push_back({std::string(original_name), [original] { original->ask_for_nothing().get(); },
                   [original] {
                     await_many<std::future<region>>(
                         [&original] { return original->ask_for_nothing(); });
                   },
                   [original] {
                     for (int i = 1; i < jobs_posted; ++i) {
                       static_cast<void>(original->ask_for_nothing());
                     }
                     original->ask_for_nothing().get();
                   }});
#if NUMAPOOL_PEER_RUST
  static_cast<void>(report);
  const auto rust = std::make_shared<rust_original>(cpus);
  peers.push_back({"original, in Rust", [rust] { rust->ask(1); },
                   [rust] { rust->ask(jobs_in_flight); },
                   [rust] {
                     rust->post(jobs_posted);
                   }});
#else
  static_cast<void>(cpus);
  static_cast<void>(report);  // whose the memory is has said so
#endif
}

}  // namespace

std::shared_ptr<void> register_dispatch_peers(node_id node, const cpu_set& cpus,
                                              peer_report& report) {
  const auto held = std::make_shared<dispatch_peers>();
  add_originals(*held, node, cpus, report);
  // As dispatch_bench.cpp: the worker looks briefly, the caller longer than a job takes.
  add_pool(*held, "numapool, spinning", node,
           one_worker(std::chrono::microseconds(20), std::chrono::microseconds(50)));
  add_pool(*held, "numapool, parked", node, one_worker({}, {}));
  add_standard_library(*held);
  add_asio(*held);
  add_onetbb(*held, report);
  add_boost_thread(*held, report);
  const std::string table = "dispatch";
  for (const dispatch_peer& peer : *held) {
    add_dispatch(table, round_trip_column, peer.name, 1, peer.round_trip);
    add_dispatch(table, in_flight_column, peer.name, jobs_in_flight, peer.in_flight);
    add_dispatch(table, posted_column, peer.name, jobs_posted, peer.posted);
  }
  const auto floor = std::make_shared<futex_echo>();
  add_dispatch(table, round_trip_column, "bare futexes, two", 1, [floor] { floor->round_trip(); });
  return held;
}

}  // namespace numapool::bench
