// SPDX-License-Identifier: Apache-2.0

// Every performance goal with what is measured here: met, short, or not to be measured. Each is a
// ratio to a peer in the same run, sampled in turn with the others.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"
#include "cli/text_table.hpp"
#include "goal_groups.hpp"
#include "goal_pool.hpp"
#include "machine_watch.hpp"
#include "program_run.hpp"
#include "spread.hpp"

namespace numapool::bench {
namespace {

struct settings {
  std::size_t size_bytes = std::size_t{1} << 30U;
  unsigned rounds = 5;
  std::string only;
  bool json = false;
  bool require = false;
};

settings read_settings(CLI::App& app, int argc, const char* const* argv) {
  settings chosen;
  std::string size;
  app.add_option("--size", size, "Of the large buffers: 1GiB (the default), 64MiB, ...");
  app.add_option("--rounds", chosen.rounds, "Times that each goal is sampled (default 5)")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--only", chosen.only, "Only goals whose name has this in it");
  app.add_flag("--json", chosen.json, "Print JSON");
  app.add_flag("--require", chosen.require, "Exit 1 when a goal is short");
  app.parse(argc, argv);
  if (!size.empty()) {
    chosen.size_bytes = cli::parse_size(size);
  }
  return chosen;
}

std::string verdict(const goal& one) {
  return one.ratios.empty() ? "not measured" : is_met(one) ? "met" : "short";
}

// Enough digits to tell it from the bound.
std::string format_ratio(double value) {
  return cli::format_fixed(value, value < 0.1 ? 4 : value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string to_text(const std::vector<goal>& goals) {
  cli::text_table table;
  table.add_column("goal", cli::align::left);
  for (const char* heading : {"", "wanted", "median", "lowest", "highest"}) {
    table.add_column(heading, cli::align::right);
  }
  table.add_column("", cli::align::left);
  for (const goal& one : goals) {
    const spread found = spread_of(one.ratios);
    std::vector<std::string> row{
        one.name, one.kind == bound::at_least ? ">=" : "<=", format_ratio(one.value)};
    for (const double value : {found.median, found.low, found.high}) {
      row.push_back(one.ratios.empty() ? "-" : format_ratio(value));
    }
    row.push_back(verdict(one) + (one.remark.empty() ? "" : ": " + one.remark));
    table.add_row(std::move(row));
  }
  return table.to_text();
}

std::string to_json(const std::vector<goal>& goals, const machine_facts& machine) {
  nlohmann::ordered_json document;
  for (const auto& [name, text] : machine) {
    document["machine"][name] = text;
  }
  for (const goal& one : goals) {
    const spread found = spread_of(one.ratios);
    nlohmann::ordered_json entry;
    entry["goal"] = one.name;
    entry[one.kind == bound::at_least ? "at_least" : "at_most"] = one.value;
    entry["ratios"] = one.ratios;
    entry["median"] =
        one.ratios.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(found.median);
    entry["verdict"] = verdict(one);
    entry["remark"] = one.remark;
    document["goals"].push_back(std::move(entry));
  }
  return document.dump(2) + "\n";
}

int measure_and_tell(const settings& chosen) {
  const machine_facts machine = describe_machine();
  const auto measured = std::make_shared<goal_pool>();
  std::vector<std::unique_ptr<goal_group>> groups;
  groups.push_back(make_memory_goals(measured, chosen.size_bytes));
  groups.push_back(make_sharing_goals(measured, chosen.size_bytes));
  groups.push_back(make_reuse_goals(measured, chosen.size_bytes));
  groups.push_back(make_dispatch_goals());
  std::vector<goal> goals;
  for (const auto& group : groups) {
    std::vector<goal> more = group->goals();
    std::copy_if(std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()),
                 std::back_inserter(goals), [&chosen](const goal& one) {
                   return one.name.find(chosen.only) != std::string::npos;
                 });
  }
  if (goals.empty()) {
    throw cli::usage_error("no goal has '" + chosen.only + "' in its name");
  }
  const bool shows_progress = ::isatty(STDERR_FILENO) == 1;
  measure_goals(goals, chosen.rounds, [&](unsigned done) {
    if (shows_progress) {
      std::cerr << "\rround " << done << " of " << chosen.rounds
                << (done == chosen.rounds ? "\r\x1b[K" : "") << std::flush;
    }
  });
  if (chosen.json) {
    std::cout << to_json(goals, machine) << std::flush;
  } else {
    for (const auto& [name, text] : machine) {
      std::cout << name << ": " << text << "\n";
    }
    std::cout << "\n" << to_text(goals) << std::flush;
  }
  const bool any_short = std::any_of(goals.begin(), goals.end(), [](const goal& one) {
    return !one.ratios.empty() && !is_met(one);
  });
  return chosen.require && any_short ? 1 : 0;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Measures the performance goals on this machine, each beside its peer.",
               "numapool_compare");
  app.footer(
      "Exit status: 0 measured; 1 it could not be, or with --require a goal is short; "
      "2 the command line is wrong.");
  return run_program(app, [&] { return measure_and_tell(read_settings(app, argc, argv)); });
}

}  // namespace
}  // namespace numapool::bench

// What nobody foresaw may end it.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
