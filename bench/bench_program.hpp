// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the Google Benchmark programs have in common. A benchmark is named "table/column/way"; the
// way original_name (original_way.hpp) is what the others are compared with (bench_summary.cpp).

#include <benchmark/benchmark.h>

namespace numapool::bench {

/// Custom context under keys with this prefix is shown by bench_summary.cpp above its tables.
inline constexpr const char* context_prefix = "about/";
/// The counter of what others took of the CPUs meanwhile (machine_watch.hpp).
inline constexpr const char* others_share_counter = "others_share";

/// Runs what was registered. Unless the command line says otherwise: several repetitions, those of
/// all benchmarks shuffled together, so that what disturbs the machine for a while disturbs all
/// alike; the printed table shows their medians only. Returns the exit status.
int run_benchmarks(int argc, char** argv);

/// Ends the benchmark with the message of the exception under way.
void skip_with_current_exception(benchmark::State& state);

}  // namespace numapool::bench
