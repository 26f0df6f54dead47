// SPDX-License-Identifier: Apache-2.0
#include "ratio_report.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/text_table.hpp"

namespace numapool::bench {
namespace {

using cli::format_fixed;

constexpr double foreign_share_calm = 0.2;  // of the CPUs: below it threads run side by side

std::string percent(double share) {
  return format_fixed(share * 100, 0) + " %";
}

std::string verdict_of(const measured_way& way, const measured_way& original) {
  return way.needed == 0 ? "" : is_short(way, original) ? "short" : "met";
}

std::string table_of(const ratio_result& result) {
  const measured_way& original = result.ways.front();
  cli::text_table table;
  table.add_column("way", cli::align::left);
  for (const char* heading :
       {"GB/s", "lowest", "highest", "x original", "lowest", "highest", "at least"}) {
    table.add_column(heading, cli::align::right);
  }
  table.add_column("", cli::align::left);
  for (const measured_way& way : result.ways) {
    const spread rate = rate_of(way, result.options.size_bytes);
    const spread ratio = ratio_of(way, original);
    std::vector<std::string> row{way.name};
    for (const double value :
         {rate.median, rate.low, rate.high, ratio.median, ratio.low, ratio.high}) {
      row.push_back(way.seconds.empty() ? "-" : format_fixed(value, 2));
    }
    row.push_back(way.needed == 0 ? "" : format_fixed(way.needed, 1));
    row.push_back(verdict_of(way, original));
    table.add_row(std::move(row));
  }
  return table.to_text();
}

std::string notes_of(const ratio_result& result) {
  std::string notes;
  for (const measured_way& way : result.ways) {
    if (!way.remark.empty()) {
      notes += way.name + ": " + way.remark + "\n";
    }
  }
  std::vector<double> foreign;
  for (const measured_way& way : result.ways) {
    foreign.insert(foreign.end(), way.foreign_shares.begin(), way.foreign_shares.end());
  }
  const spread share = spread_of(foreign);
  notes += "Other programs took " + percent(share.median) +
           " of the CPUs during the median sample, " + percent(share.high) + " at worst.\n";
  if (share.median > foreign_share_calm) {
    notes +=
        "That is too much to compare threads: on CPUs that others want too, several workers\n"
        "get little more time than one thread, and the ratios come out too low.\n";
  }
  notes +=
      "Samples taken again because the machine was disturbed: " + std::to_string(result.retried) +
      "; disturbed samples that stood: " + std::to_string(result.disturbed) + ".\n";
  if (result.watches_page_reporting) {
    notes += "Memory that went back to the host during samples that stood: " +
             std::to_string(result.reported_kib) + " KiB (its first touch is slow by any way).\n";
  }
  return notes;
}

nlohmann::ordered_json json_of(const spread& values) {
  return {{"median", values.median}, {"lowest", values.low}, {"highest", values.high}};
}

nlohmann::ordered_json json_of(const measured_way& way, const ratio_result& result) {
  const measured_way& original = result.ways.front();
  nlohmann::ordered_json entry{
      {"name", way.name},
      {"seconds", way.seconds},
      {"foreign_shares", way.foreign_shares},
      {"gigabytes_per_second", json_of(rate_of(way, result.options.size_bytes))},
      {"times_the_original", json_of(ratio_of(way, original))}};
  entry["needed"] = way.needed > 0 ? nlohmann::ordered_json(way.needed) : nlohmann::ordered_json();
  entry["met"] =
      way.needed > 0 ? nlohmann::ordered_json(!is_short(way, original)) : nlohmann::ordered_json();
  entry["remark"] =
      way.remark.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(way.remark);
  return entry;
}

}  // namespace

std::string to_text(const ratio_result& result, const machine_facts& machine) {
  std::string text;
  std::size_t widest = 0;
  for (const auto& fact : machine) {
    widest = std::max(widest, fact.first.size());
  }
  for (const auto& [name, value] : machine) {
    text.append(name).append(widest + 2 - name.size(), ' ').append(value).append("\n");
  }
  text += "\n" + cli::format_bytes(result.options.size_bytes) +
          " made resident, from the request to the buffer in hand; " +
          std::to_string(result.workers) + (result.workers == 1 ? " worker" : " workers") +
          " against one; median of " + std::to_string(result.options.rounds) + " rounds, seed " +
          std::to_string(result.options.seed) + "\n\n";
  return text + table_of(result) + "\n" + notes_of(result);
}

std::string to_json(const ratio_result& result, const machine_facts& machine) {
  nlohmann::ordered_json document;
  for (const auto& [name, value] : machine) {
    document["machine"][name] = value;
  }
  document["size_bytes"] = result.options.size_bytes;
  document["rounds"] = result.options.rounds;
  document["seed"] = result.options.seed;
  document["workers"] = result.workers;
  document["retried"] = result.retried;
  document["disturbed"] = result.disturbed;
  document["reported_kib"] = result.watches_page_reporting
                                 ? nlohmann::ordered_json(result.reported_kib)
                                 : nlohmann::ordered_json();
  document["ways"] = nlohmann::ordered_json::array();
  for (const measured_way& way : result.ways) {
    document["ways"].push_back(json_of(way, result));
  }
  return document.dump(2) + "\n";
}

}  // namespace numapool::bench
