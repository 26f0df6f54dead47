// SPDX-License-Identifier: Apache-2.0

// How many times quicker the pool makes memory resident than the original's way: same bytes, one
// run, turn by turn.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"
#include "machine_watch.hpp"
#include "program_run.hpp"
#include "ratio_measurement.hpp"
#include "ratio_report.hpp"

namespace numapool::bench {
namespace {

struct settings {
  ratio_options measure;
  bool json = false;
  bool require = false;
};

// Throws CLI::ParseError, cli::usage_error.
settings read_settings(CLI::App& app, int argc, const char* const* argv) {
  settings chosen;
  std::string size;
  chosen.measure.seed = std::random_device()();
  app.add_option("SIZE", size, "of each buffer: 1GiB (the default), 64MiB, ...");
  app.add_option("--rounds", chosen.measure.rounds, "Times that each way is measured (default 7)")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--seed", chosen.measure.seed, "Of the order within a round (default: by chance)");
  app.add_option("--patience", chosen.measure.patience_ms,
                 "Longest wait for a calm machine before a sample, in ms (default 500)")
      ->check(CLI::Range(0U, 600'000U));
  app.add_option("--retries", chosen.measure.retries_a_sample,
                 "Times that a disturbed sample is taken again, at most (default 2)")
      ->check(CLI::Range(0U, 1000U));
  app.add_option(
         "--calm-for", chosen.measure.calm_seconds,
         "After so many seconds it no longer waits for calm or takes samples again (default 25)")
      ->check(CLI::Range(0U, 86'400U));
  app.add_flag("--json", chosen.json, "Print JSON");
  app.add_flag("--require", chosen.require, "Exit 1 when a ratio falls short");
  app.footer(
      "Exit status: 0 measured; 1 it could not be measured, or with --require fell short; "
      "2 the command line is wrong.");
  app.parse(argc, argv);
  if (!size.empty()) {
    chosen.measure.size_bytes = cli::parse_size(size);
  }
  if (chosen.measure.size_bytes == 0) {
    throw cli::usage_error("'" + size + "' is nothing to measure: ask for at least one byte");
  }
  return chosen;
}

int measure_and_tell(const settings& chosen) {
  const machine_facts machine = describe_machine();
  const ratio_result result = measure_ratio(chosen.measure);
  std::cout << (chosen.json ? to_json(result, machine) : to_text(result, machine)) << std::flush;
  const bool any_short =
      std::any_of(result.ways.begin(), result.ways.end(),
                  [&](const measured_way& way) { return is_short(way, result.ways.front()); });
  return chosen.require && any_short ? 1 : 0;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Measures how quickly the pool makes memory resident, against the original's way.",
               "numapool_populate_ratio");
  return run_program(app, [&] { return measure_and_tell(read_settings(app, argc, argv)); });
}

}  // namespace
}  // namespace numapool::bench

// What nobody foresaw may end it.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
