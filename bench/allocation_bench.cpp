// SPDX-License-Identifier: Apache-2.0

// A buffer in hand: by the pool, by the original's way, and by the bare loops that are the floor of
// each page kind, lock and way of filling. Freeing is not in the times.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include <numapool/worker_pool.hpp>

#include "bench_program.hpp"
#include "machine_watch.hpp"
#include "original_way.hpp"
#include "raw_fill.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

struct contenders {
  worker_pool pool;
  node_id node = first_usable_node(pool.topology());
  original_way original{node};
  unsigned workers = count_workers();
  raw_filler raw{workers};

  unsigned count_workers() {
    request smallest;
    smallest.size_bytes = base_page_bytes();
    smallest.node = node;
    return pool.allocate(smallest).workers();
  }
};

// Gives the seconds of one allocation; the memory is given back after the clock has stopped.
template <typename Make>
double seconds_of(Make make) {
  const auto begun = std::chrono::steady_clock::now();
  const auto made = make();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  benchmark::DoNotOptimize(made.data());
  return passed.count();
}

void add(contenders& all, std::size_t size_bytes, const std::string& way,
         std::function<double()> allocate) {
  const std::string name = "allocate/" + std::to_string(size_bytes / mib) + " MiB/" + way;
  const auto measure = [&all, size_bytes, allocate = std::move(allocate)](benchmark::State& state) {
    try {
      for (auto unused : state) {
        static_cast<void>(unused);
        all.raw.make_warm(size_bytes);
        state.SetIterationTime(allocate());
      }
      state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size_bytes));
    } catch (...) {
      skip_with_current_exception(state);
    }
  };
  // Enough of the small to measure, and the large once: a fixed number also spares trial runs.
  const bool is_large = size_bytes >= 512 * mib;
  const int iterations = is_large ? 1 : size_bytes >= 32 * mib ? 2 : 20;
  auto* const added = benchmark::RegisterBenchmark(name.c_str(), measure);
  added->UseManualTime()->Iterations(iterations)->Unit(benchmark::kMicrosecond);
  if (is_large) {
    added->Repetitions(3);
  }
}

struct variant {
  std::string name;
  page_choice pages;
  fill_choice fill;
};

void add_pair(contenders& all, std::size_t size_bytes, const variant& what, bool lock) {
  const std::string name = what.name + (lock ? ", locked" : "");
  const raw_options raw{what.pages, what.fill, lock};
  add(all, size_bytes, "bare loops: " + name, [&all, size_bytes, raw] {
    return seconds_of([&] { return all.raw.fill(size_bytes, raw); });
  });
  request ask;
  ask.size_bytes = size_bytes;
  ask.node = all.node;
  ask.pages = what.pages == page_choice::huge ? page_policy::thp : page_policy::base;
  ask.populate = what.fill == fill_choice::call ? populate_mode::fast : populate_mode::quiet;
  ask.pin = lock ? pin_policy::mlock : pin_policy::none;
  add(all, size_bytes, "pool: " + name,
      [&all, ask] { return seconds_of([&] { return all.pool.allocate(ask); }); });
}

void add_all(contenders& all) {
  for (const std::size_t size_bytes : {2 * mib, 64 * mib, 1024 * mib}) {
    add(all, size_bytes, std::string(original_name), [&all, size_bytes] {
      return seconds_of([&] { return all.original.allocate(size_bytes); });
    });
    for (const bool lock : {false, true}) {
      // The largest takes longest and says least about locks: base pages cost there what they cost
      // at 64 MiB.
      if (!lock || size_bytes < 512 * mib) {
        add_pair(all, size_bytes, {"base pages, quiet", page_choice::base, fill_choice::touch},
                 lock);
        add_pair(all, size_bytes, {"base pages, fast", page_choice::base, fill_choice::call}, lock);
      }
      add_pair(all, size_bytes, {"huge pages", page_choice::huge, fill_choice::touch}, lock);
    }
  }
}

int run(int argc, char** argv) {
  try {
    contenders all;
    benchmark::AddCustomContext("workers", std::to_string(all.workers));
    add_all(all);
    return run_benchmarks(argc, argv);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "numapool_allocation_bench: %s\n", failed.what());
    return 1;
  }
}

}  // namespace
}  // namespace numapool::bench

int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
