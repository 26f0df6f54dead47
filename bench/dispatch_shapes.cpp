// SPDX-License-Identifier: Apache-2.0
#include "dispatch_shapes.hpp"

#include <benchmark/benchmark.h>

#include "bench_program.hpp"
#include "machine_watch.hpp"

namespace numapool::bench {

void add_dispatch(const std::string& table, const std::string& column, const std::string& way,
                  int jobs, std::function<void()> operation) {
  const auto measure = [jobs, operation = std::move(operation)](benchmark::State& state) {
    try {
      const machine_watch watch;
      for (auto unused : state) {
        static_cast<void>(unused);
        operation();
      }
      state.counters["seconds_a_job"] =
          benchmark::Counter(static_cast<double>(state.iterations()) * jobs,
                             benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
      state.counters[others_share_counter] = watch.look().foreign_share;
    } catch (...) {
      skip_with_current_exception(state);
    }
  };
  std::string name = table;
  name.append("/").append(column).append("/").append(way);
  benchmark::RegisterBenchmark(name.c_str(), measure)
      ->UseRealTime()
      ->MinTime(0.05)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace numapool::bench
