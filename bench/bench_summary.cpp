// SPDX-License-Identifier: Apache-2.0

// Google Benchmark's JSON as tables for people: for each "table" a column for each "column" and a
// row for each "way" of
// the benchmarks "table/column/way"; medians of the repetitions, and how many times as quick as the
// way "original".

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/text_table.hpp"
#include "original_way.hpp"
#include "spread.hpp"

namespace numapool::bench {
namespace {

struct samples {
  std::vector<double> seconds;  // a job, or a whole operation
  std::vector<double> rates;    // bytes a second, where the benchmark counts bytes
  std::string error;
};

// Names keep the order in which they were first seen.
struct table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::string> ways;
  std::map<std::pair<std::string, std::string>, samples> cells;  // by column and way
};

void note(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

std::vector<std::string> first_parts(const std::string& name) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; parts.size() < 3 && begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

double seconds_of_unit(const std::string& unit) {
  return unit == "ns" ? 1e-9 : unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1;
}

void add_entry(const nlohmann::json& entry, std::vector<table>& tables) {
  const std::vector<std::string> parts = first_parts(entry.at("name"));
  if (parts.size() < 3 || entry.value("run_type", "iteration") != "iteration") {
    return;
  }
  auto at = std::find_if(tables.begin(), tables.end(),
                         [&](const table& known) { return known.name == parts[0]; });
  if (at == tables.end()) {
    at = tables.insert(tables.end(), {parts[0], {}, {}, {}});
  }
  note(at->columns, parts[1]);
  note(at->ways, parts[2]);
  samples& cell = at->cells[{parts[1], parts[2]}];
  if (entry.value("error_occurred", false)) {
    cell.error = entry.value("error_message", "it failed");
    return;
  }
  const double whole = entry.at("real_time").get<double>() * seconds_of_unit(entry.at("time_unit"));
  cell.seconds.push_back(entry.value("seconds_a_job", whole));
  if (entry.contains("bytes_per_second")) {
    cell.rates.push_back(entry.at("bytes_per_second"));
  }
}

double median_of(const std::vector<double>& values) {
  return spread_of(values).median;
}

// Three digits, whatever the unit.
std::string format_three(double value) {
  return cli::format_fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string format_seconds(double seconds) {
  for (const auto& [unit, factor] :
       {std::pair{"ns", 1e9}, std::pair{"us", 1e6}, std::pair{"ms", 1e3}}) {
    if (seconds * factor < 1000) {
      return format_three(seconds * factor) + " " + unit;
    }
  }
  return format_three(seconds) + " s";
}

std::string cell_text(const samples& of) {
  if (of.seconds.empty()) {
    return of.error.empty() ? "" : "failed";
  }
  return of.rates.empty() ? format_seconds(median_of(of.seconds))
                          : format_three(median_of(of.rates) / 1e9) + " GB/s";
}

std::string ratio_text(const samples& of, const samples& original) {
  const double own = median_of(of.seconds);
  return own > 0 && !original.seconds.empty()
             ? "x " + format_three(median_of(original.seconds) / own)
             : "";
}

std::string to_text(table& what) {
  cli::text_table text;
  text.add_column(what.name, cli::align::left);
  for (const std::string& column : what.columns) {
    text.add_column(column, cli::align::right);
    text.add_column("", cli::align::right);
  }
  std::string errors;
  for (const std::string& way : what.ways) {
    std::vector<std::string> row{way};
    for (const std::string& column : what.columns) {
      const samples& cell = what.cells[{column, way}];
      row.push_back(cell_text(cell));
      row.push_back(ratio_text(cell, what.cells[{column, std::string(original_name)}]));
      if (!cell.error.empty()) {
        errors.append(way).append(", ").append(column).append(": ").append(cell.error).append("\n");
      }
    }
    text.add_row(std::move(row));
  }
  return text.to_text() + errors;
}

int run(const std::vector<std::string>& paths) {
  std::vector<table> tables;
  std::size_t repetitions = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    if (!file) {
      throw std::runtime_error("cannot read '" + path + "'");
    }
    // They stand in the order in which they ended; tables are in the order of the program.
    auto entries = nlohmann::json::parse(file).at("benchmarks").get<std::vector<nlohmann::json>>();
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return a.value("family_index", 0) < b.value("family_index", 0);
    });
    for (const nlohmann::json& entry : entries) {
      add_entry(entry, tables);
      repetitions = std::max(repetitions, entry.value("repetitions", std::size_t{1}));
    }
  }
  std::cout << "Medians of " << repetitions
            << " repetitions, shuffled; \"x\" is how many times as quick as the original's"
            << " way in the same run.\n";
  for (table& each : tables) {
    std::cout << "\n" << to_text(each);
  }
  return 0;
}

}  // namespace
}  // namespace numapool::bench

int main(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) == "--help") {
    (argc < 2 ? std::cerr : std::cout)
        << "Usage: numapool_bench_summary FILE...\n\n"
           "Shows the JSON results of the benchmark programs as tables.\n";
    return argc < 2 ? 2 : 0;
  }
  try {
    return numapool::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& failed) {
    std::cerr << "numapool_bench_summary: " << failed.what() << "\n";
    return 1;
  }
}
