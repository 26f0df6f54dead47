// SPDX-License-Identifier: Apache-2.0

// Google Benchmark's JSON as tables for people: for each "table" a column for each "column" and a
// row for each "way" of the benchmarks "table/column/way"; medians of the repetitions, and how many
// times as quick as the way "original". With --spread a table for each column instead, the quickest
// first, with the lowest and the highest of the repetitions.

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench_program.hpp"
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

struct results {
  std::vector<table> tables;
  std::map<std::string, std::string> about;  // bench_program.hpp: context_prefix
  std::vector<double> others_shares;
  std::size_t repetitions = 0;
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

std::string format_percent(double share) {
  return cli::format_fixed(share * 100, 0) + " %";
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

std::string spread_text(const samples& of) {
  if (of.seconds.empty()) {
    return "";
  }
  const bool is_rate = !of.rates.empty();
  const spread all = spread_of(is_rate ? of.rates : of.seconds);
  return is_rate ? format_three(all.low / 1e9) + " to " + format_three(all.high / 1e9)
                 : format_seconds(all.low) + " to " + format_seconds(all.high);
}

std::string ratio_text(const samples& of, const samples& original) {
  const double own = median_of(of.seconds);
  return own > 0 && !original.seconds.empty()
             ? "x " + format_three(median_of(original.seconds) / own)
             : "";
}

std::string error_text(const std::string& way, const std::string& column, const samples& cell) {
  return cell.error.empty() ? "" : way + ", " + column + ": " + cell.error + "\n";
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
      errors += error_text(way, column, cell);
    }
    text.add_row(std::move(row));
  }
  return text.to_text() + errors;
}

// What failed comes last: it has no time.
std::string to_spread_text(table& what, const std::string& column) {
  const auto time_of = [&](const std::string& way) {
    const samples& cell = what.cells[{column, way}];
    return cell.seconds.empty() ? HUGE_VAL : median_of(cell.seconds);
  };
  std::vector<std::string> ways;
  std::copy_if(what.ways.begin(), what.ways.end(), std::back_inserter(ways),
               [&](const std::string& way) {
                 return what.cells.contains({column, way});
               });
  std::stable_sort(ways.begin(), ways.end(), [&](const std::string& one, const std::string& other) {
    return time_of(one) < time_of(other);
  });
  cli::text_table text;
  text.add_column(what.name + ", " + column, cli::align::left);
  for (const char* const heading : {"median", "spread", "x original"}) {
    text.add_column(heading, cli::align::right);
  }
  std::string errors;
  for (const std::string& way : ways) {
    const samples& cell = what.cells[{column, way}];
    text.add_row({way, cell_text(cell), spread_text(cell),
                  ratio_text(cell, what.cells[{column, std::string(original_name)}])});
    errors += error_text(way, column, cell);
  }
  return text.to_text() + errors;
}

// Google Benchmark writes NaN, which is no JSON, for the variation of what is always 0.
nlohmann::json parse_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read '" + path + "'");
  }
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string_view not_a_number = ": NaN";
  for (std::size_t at = 0; (at = text.find(not_a_number, at)) != std::string::npos;) {
    text.replace(at, not_a_number.size(), ": null");
  }
  return nlohmann::json::parse(text);
}

void read_results(const std::string& path, results& all) {
  const nlohmann::json whole = parse_file(path);
  const std::string prefix = context_prefix;
  for (const auto& [key, value] : whole.at("context").items()) {
    if (key.starts_with(prefix)) {
      all.about[key.substr(prefix.size())] = value.get<std::string>();
    }
  }
  // They stand in the order in which they ended; tables are in the order of the program.
  auto entries = whole.at("benchmarks").get<std::vector<nlohmann::json>>();
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.value("family_index", 0) < b.value("family_index", 0);
  });
  for (const nlohmann::json& entry : entries) {
    add_entry(entry, all.tables);
    all.repetitions = std::max(all.repetitions, entry.value("repetitions", std::size_t{1}));
    if (entry.contains(others_share_counter) && entry.value("run_type", "") == "iteration") {
      all.others_shares.push_back(entry.at(others_share_counter));
    }
  }
}

std::string to_text(const std::map<std::string, std::string>& about) {
  std::string text;
  for (const auto& [key, value] : about) {
    text.append(key).append(": ").append(value).append("\n");
  }
  return text;
}

int run(const std::vector<std::string>& paths, bool with_spread) {
  results all;
  for (const std::string& path : paths) {
    read_results(path, all);
  }
  std::cout << to_text(all.about);
  if (const spread others = spread_of(all.others_shares); !all.others_shares.empty()) {
    std::cout << "others at the CPUs meanwhile: median " << format_percent(others.median)
              << ", at most " << format_percent(others.high) << "\n";
  }
  std::cout << "Medians of " << all.repetitions
            << " repetitions, shuffled; \"x\" is how many times as quick as the original's"
            << " way in the same run.\n";
  for (table& each : all.tables) {
    if (!with_spread) {
      std::cout << "\n" << to_text(each);
      continue;
    }
    for (const std::string& column : each.columns) {
      std::cout << "\n" << to_spread_text(each, column);
    }
  }
  return 0;
}

}  // namespace
}  // namespace numapool::bench

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  const bool with_spread = !paths.empty() && paths.front() == "--spread";
  if (with_spread) {
    paths.erase(paths.begin());
  }
  if (paths.empty() || paths.front() == "--help") {
    (paths.empty() ? std::cerr : std::cout)
        << "Usage: numapool_bench_summary [--spread] FILE...\n\n"
           "Shows the JSON results of the benchmark programs as tables. With --spread each column\n"
           "is a table of its own, with the lowest and the highest of the repetitions.\n";
    return paths.empty() ? 2 : 0;
  }
  try {
    return numapool::bench::run(paths, with_spread);
  } catch (const std::exception& failed) {
    std::cerr << "numapool_bench_summary: " << failed.what() << "\n";
    return 1;
  }
}
