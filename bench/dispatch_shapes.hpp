// SPDX-License-Identifier: Apache-2.0
#pragma once

// The shapes in which empty jobs are given to others in the benchmarks of dispatch, and the columns
// of their tables. Threads: as what is asked.

#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

namespace numapool::bench {

inline constexpr int jobs_in_flight = 64;
inline constexpr int jobs_posted = 1000;

inline const std::string round_trip_column = "round trip";
inline const std::string in_flight_column = std::to_string(jobs_in_flight) + " in flight";
inline const std::string posted_column = "posted";

/// `start` gives a future; all are started, then each is awaited.
template <typename Future, typename Start>
void await_many(Start start) {
  std::vector<Future> started;
  started.reserve(jobs_in_flight);
  for (int i = 0; i < jobs_in_flight; ++i) {
    started.push_back(start());
  }
  for (Future& future : started) {
    future.get();
  }
}

/// `post` is given functions, the last of which is awaited: whoever runs them is one thread, in
/// order.
template <typename Post>
void post_many_by(Post post) {
  for (int i = 1; i < jobs_posted; ++i) {
    post([] {});
  }
  std::promise<void> last;
  post([&last] { last.set_value(); });
  last.get_future().get();
}

template <typename Executor>
void post_many(const Executor& executor) {
  post_many_by([&executor](auto job) { boost::asio::post(executor, std::move(job)); });
}

/// Registers "table/column/way" (bench_program.hpp): `operation` does `jobs` jobs, and the time is
/// that of one.
void add_dispatch(const std::string& table, const std::string& column, const std::string& way,
                  int jobs, std::function<void()> operation);

}  // namespace numapool::bench
