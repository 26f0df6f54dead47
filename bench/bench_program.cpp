// SPDX-License-Identifier: Apache-2.0
#include "bench_program.hpp"

#include <array>
#include <exception>
#include <string>
#include <vector>

namespace numapool::bench {

int run_benchmarks(int argc, char** argv) {
  // The last of two equal flags holds, so the caller's come after ours.
  std::array<std::string, 3> defaults{"--benchmark_repetitions=5",
                                      "--benchmark_enable_random_interleaving=true",
                                      "--benchmark_display_aggregates_only=true"};
  std::vector<char*> arguments{argv[0]};
  for (std::string& flag : defaults) {
    arguments.push_back(flag.data());
  }
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  arguments.push_back(nullptr);
  int count = static_cast<int>(arguments.size()) - 1;
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

void skip_with_current_exception(benchmark::State& state) {
  try {
    throw;
  } catch (const std::exception& failed) {
    state.SkipWithError(failed.what());
  }
}

}  // namespace numapool::bench
