// SPDX-License-Identifier: Apache-2.0

// An empty job, there and back: the pool beside the original's shape, Asio's own pool, and the
// kernel's floor.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <numapool/worker_pool.hpp>

#include "futex_echo.hpp"
#include "goal_groups.hpp"
#include "machine_watch.hpp"
#include "original_way.hpp"
#include "platform/platform.hpp"
#include "spread.hpp"

namespace numapool::bench {
namespace {

namespace asio = boost::asio;

constexpr int repeats = 400;
constexpr int in_flight = 64;
constexpr int posts = 20'000;
constexpr std::chrono::milliseconds idle_time{2};

worker_pool_options one_worker(std::chrono::microseconds worker_spin,
                               std::chrono::microseconds caller_spin) {
  worker_pool_options options;
  options.workers_per_node = 1;
  options.worker_spin = worker_spin;
  options.caller_spin = caller_spin;
  return options;
}

template <typename Operation>
double seconds_of(Operation operation) {
  const auto begun = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// The median: one preempted round trip is longer than a hundred others.
template <typename Operation>
double median_seconds(int count, Operation operation) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    seconds.push_back(seconds_of(operation));
  }
  return spread_of(std::move(seconds)).median;
}

// After an idle time each, as sporadic requests come.
template <typename Operation>
double median_after_idling(Operation operation) {
  std::vector<double> seconds;
  seconds.reserve(repeats / 8);
  for (int i = 0; i < repeats / 8; ++i) {
    std::this_thread::sleep_for(idle_time);
    seconds.push_back(seconds_of(operation));
  }
  return spread_of(std::move(seconds)).median;
}

template <typename Executor>
void post_and_await(const Executor& executor, int count) {
  std::atomic<int> left{count};
  for (int i = 0; i < count; ++i) {
    asio::post(executor, [&left] {
      if (left.fetch_sub(1) == 1) {
        left.notify_one();
      }
    });
  }
  for (int now = left.load(); now != 0; now = left.load()) {
    left.wait(now);
  }
}

/// Keeps the calling thread, and those that it starts, on these CPUs for its scope.
class kept_on {
 public:
  explicit kept_on(const cpu_set& cpus) {
    auto& threads = platform::this_machine().threads;
    is_kept_ = !cpus.empty() && !threads.get_affinity(before_) && !threads.set_affinity(cpus);
  }
  ~kept_on() {
    if (is_kept_) {
      static_cast<void>(platform::this_machine().threads.set_affinity(before_));
    }
  }
  kept_on(const kept_on&) = delete;
  kept_on& operator=(const kept_on&) = delete;

 private:
  cpu_set before_;
  bool is_kept_ = false;
};

// Everybody's worker on one CPU, the caller on another: where the scheduler may choose, a pair that
// it has put onto one CPU is measured against one that it has not (2.4 and 60 us, for the same
// peer).
struct two_cpus {
  cpu_set of_workers;
  cpu_set of_caller;

  [[nodiscard]] static two_cpus here() {
    two_cpus chosen;
    for (const node_info& node : topology::system()->nodes()) {
      if (node.usable_cpus.size() >= 2) {
        auto cpu = node.usable_cpus.begin();
        chosen.of_workers.insert(*cpu);
        chosen.of_caller.insert(*++cpu);
        break;
      }
    }
    return chosen;
  }
};

class dispatch_goals final : public goal_group {
 public:
  dispatch_goals() {
    for (worker_pool* const pool : {&parked_, &spinning_}) {  // whose worker has the whole node
      pool->submit(node_, [this] {
        static_cast<void>(platform::this_machine().threads.set_affinity(cpus_.of_workers));
      });
    }
    start_.reset();
  }

  std::vector<goal> goals() override {
    const auto ratio = [this](auto peer, auto own) {
      return [this, peer, own] {
        const kept_on apart(cpus_.of_caller);
        const double theirs = peer();
        return theirs / own();
      };
    };
    const auto trip = [this] {
      spinning_.submit(node_, [] {});
    };
    const auto spinning_trip = [trip] {
      return median_seconds(repeats, trip);
    };
    const auto parked_trip = [this] {
      return median_seconds(repeats, [this] { parked_.submit(node_, [] {}); });
    };
    const auto original_trip = [this] {
      return median_seconds(repeats, [this] { original_.ask_for_nothing().get(); });
    };
    const auto asio_trip = [this] {
      return median_seconds(repeats, [this] { asio::post(asio_, asio::use_future).get(); });
    };
    const auto floor_trip = [this] {
      return median_seconds(repeats, [this] { echo_.round_trip(); });
    };
    const auto idle_floor = [this] {
      return median_after_idling([this] { echo_.round_trip(); });
    };
    const auto idle_trip = [this] {
      return median_after_idling([this] { parked_.submit(node_, [] {}); });
    };
    const auto many = [this] {
      return seconds_of([this] { ask_many(in_flight); });
    };
    const auto own_many = [this] {
      return median_seconds(repeats / 4, [this] { post_and_await(executor(), in_flight); });
    };
    const auto original_many = [many] {
      return median_seconds(repeats / 4, [many] { static_cast<void>(many()); });
    };
    const auto own_posts = [this] {
      return seconds_of([this] { post_and_await(executor(), posts); });
    };
    const auto asio_posts = [this] {
      return seconds_of([this] { post_and_await(asio_.get_executor(), posts); });
    };
    const auto original_posts = [this] {
      return seconds_of([this] { ask_and_forget(posts); });
    };
    return {
        {"round trip, spinning: times the original", bound::at_least, 20,
         ratio(original_trip, spinning_trip)},
        {"round trip, spinning: times asio::thread_pool", bound::at_least, 20,
         ratio(asio_trip, spinning_trip)},
        {"64 in flight, spinning: times the original", bound::at_least, 8,
         ratio(original_many, own_many)},
        {"posts, spinning: times the original", bound::at_least, 2,
         ratio(original_posts, own_posts)},
        {"posts, spinning: times asio::thread_pool", bound::at_least, 4,
         ratio(asio_posts, own_posts)},
        {"round trip, parked, hot: of the futex floor", bound::at_most, 1.1,
         ratio(parked_trip, floor_trip)},
        {"round trip, parked, after 2 ms: of the futex floor", bound::at_most, 1.1,
         ratio(idle_trip, idle_floor)},
    };
  }

 private:
  [[nodiscard]] node_executor executor() { return spinning_.executor(node_); }

  void ask_many(int count) {
    std::vector<std::future<region>> asked;
    asked.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      asked.push_back(original_.ask_for_nothing());
    }
    for (std::future<region>& one : asked) {
      one.get();
    }
  }
  void ask_and_forget(int count) {
    for (int i = 1; i < count; ++i) {
      static_cast<void>(original_.ask_for_nothing());
    }
    original_.ask_for_nothing().get();
  }

  const two_cpus cpus_ = two_cpus::here();
  std::optional<kept_on> start_{std::in_place, cpus_.of_workers};  // while the others start threads
  worker_pool parked_{one_worker({}, {})};
  worker_pool spinning_{one_worker(std::chrono::microseconds(20), std::chrono::microseconds(50))};
  node_id node_ = first_usable_node(parked_.topology());
  original_way original_{node_};
  asio::thread_pool asio_{1};
  futex_echo echo_;
};

}  // namespace

std::unique_ptr<goal_group> make_dispatch_goals() {
  return std::make_unique<dispatch_goals>();
}

}  // namespace numapool::bench
