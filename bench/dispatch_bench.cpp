// SPDX-License-Identifier: Apache-2.0

// An empty job: there and back, many at once, and posted without waiting. One worker each.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <numapool/worker_pool.hpp>

#include "bench_program.hpp"
#include "dispatch_shapes.hpp"
#include "futex_echo.hpp"
#include "machine_watch.hpp"
#include "original_way.hpp"

namespace numapool::bench {
namespace {

worker_pool_options one_worker() {
  worker_pool_options options;
  options.workers_per_node = 1;
  return options;
}

// As the best of performance goals ask for: the worker looks briefly, the caller longer than a job
// takes.
worker_pool_options one_spinning_worker() {
  worker_pool_options options = one_worker();
  options.worker_spin = std::chrono::microseconds(20);
  options.caller_spin = std::chrono::microseconds(50);
  return options;
}

struct contenders {
  worker_pool pool{one_worker()};
  worker_pool spinning{one_spinning_worker()};
  node_id node = first_usable_node(pool.topology());
  original_way original{node};
  boost::asio::thread_pool asio{1};
  futex_echo echo;
};

void add(const std::string& column, const std::string& way, int jobs,
         std::function<void()> operation) {
  add_dispatch("dispatch", column, way, jobs, std::move(operation));
}

void add_round_trips(contenders& all) {
  const std::string& column = round_trip_column;
  const auto executor = all.pool.executor(all.node);
  add(column, std::string(original_name), 1, [&all] { all.original.ask_for_nothing().get(); });
  add(column, "asio thread_pool, future", 1,
      [&all] { boost::asio::post(all.asio, boost::asio::use_future).get(); });
  add(column, "pool, blocking submit", 1, [&all] { all.pool.submit(all.node, [] {}); });
  add(column, "spinning pool, blocking submit", 1,
      [&all] { all.spinning.submit(all.node, [] {}); });
  add(column, "pool, submit with use_future", 1, [&all] {
    all.pool
        .submit(
            all.node, [] {}, boost::asio::use_future)
        .get();
  });
  add(column, "pool, post with use_future", 1,
      [executor] { boost::asio::post(executor, boost::asio::use_future).get(); });
  add(column, "two futexes", 1, [&all] { all.echo.round_trip(); });
}

// Many without futures: each job counts itself.
void await_count(const node_executor& executor) {
  std::atomic<int> left{jobs_in_flight};
  for (int i = 0; i < jobs_in_flight; ++i) {
    boost::asio::post(executor, [&left] {
      if (left.fetch_sub(1) == 1) {
        left.notify_one();
      }
    });
  }
  for (int now = left.load(); now != 0; now = left.load()) {
    left.wait(now);
  }
}

void add_in_flight(contenders& all) {
  const std::string& column = in_flight_column;
  const auto executor = all.pool.executor(all.node);
  add(column, std::string(original_name), jobs_in_flight,
      [&all] { await_many<std::future<region>>([&] { return all.original.ask_for_nothing(); }); });
  add(column, "asio thread_pool, future", jobs_in_flight, [&all] {
    await_many<std::future<void>>(
        [&] { return boost::asio::post(all.asio, boost::asio::use_future); });
  });
  add(column, "pool, submit with use_future", jobs_in_flight, [&all] {
    await_many<std::future<void>>([&] {
      return all.pool.submit(
          all.node, [] {}, boost::asio::use_future);
    });
  });
  const auto spinning = all.spinning.executor(all.node);
  add(column, "spinning pool, post and count", jobs_in_flight,
      [spinning] { await_count(spinning); });
  add(column, "spinning pool, post with use_future", jobs_in_flight, [spinning] {
    await_many<std::future<void>>(
        [&] { return boost::asio::post(spinning, boost::asio::use_future); });
  });
  add(column, "pool, post with use_future", jobs_in_flight, [executor] {
    await_many<std::future<void>>(
        [&] { return boost::asio::post(executor, boost::asio::use_future); });
  });
}

void add_posts(contenders& all) {
  const std::string& column = posted_column;
  const auto executor = all.pool.executor(all.node);
  const auto spinning = all.spinning.executor(all.node);
  add(column, "spinning pool, post", jobs_posted, [spinning] { post_many(spinning); });
  add(column, std::string(original_name), jobs_posted, [&all] {
    for (int i = 1; i < jobs_posted; ++i) {
      static_cast<void>(all.original.ask_for_nothing());
    }
    all.original.ask_for_nothing().get();
  });
  add(column, "asio thread_pool", jobs_posted, [&all] { post_many(all.asio.get_executor()); });
  add(column, "pool, post", jobs_posted, [executor] { post_many(executor); });
}

int run(int argc, char** argv) {
  try {
    contenders all;
    add_round_trips(all);
    add_in_flight(all);
    add_posts(all);
    return run_benchmarks(argc, argv);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "numapool_dispatch_bench: %s\n", failed.what());
    return 1;
  }
}

}  // namespace
}  // namespace numapool::bench

int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
