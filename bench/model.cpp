// SPDX-License-Identifier: Apache-2.0

// The cost model beside what others measured, and what it says of a machine that none of us has.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"
#include "cli/text_table.hpp"
#include "cost_model.hpp"
#include "model_points.hpp"
#include "program_run.hpp"

namespace numapool::bench {
namespace {

struct settings {
  bool predicts = false;
  workload load;
  bool json = false;
  bool require = false;
};

const std::map<std::string, page_kind>& page_names() {
  static const std::map<std::string, page_kind> names{
      {"base", page_kind::base}, {"thp", page_kind::thp}, {"2MiB", page_kind::hugetlb}};
  return names;
}

std::string name_of(page_kind pages) {
  for (const auto& [name, kind] : page_names()) {
    if (kind == pages) {
      return name;
    }
  }
  return "?";
}

const char* name_of(work_kind work) {
  switch (work) {
    case work_kind::populate:
      return "populate";
    case work_kind::register_resident:
      return "register";
    case work_kind::populate_then_register:
      return "populate, register";
    case work_kind::pipelined:
      return "pipelined";
    case work_kind::driver_call:
      return "driver's call";
  }
  return "?";
}

settings read_settings(CLI::App& app, int argc, const char* const* argv) {
  settings chosen;
  std::string size;
  std::string chunk = "64GiB";
  std::string pages = "base";
  std::vector<std::string> names;
  for (const auto& [name, kind] : page_names()) {
    names.push_back(name);
  }
  auto* const sized = app.add_option("--size", size, "Predict for a buffer on all nodes: 1TiB");
  app.add_option("--nodes", chosen.load.nodes, "Nodes that it is spread over (default 1)")
      ->check(CLI::Range(1U, 1024U))
      ->needs(sized);
  app.add_option("--threads", chosen.load.threads, "Threads on each node (default 1)")
      ->check(CLI::Range(1U, 65536U))
      ->needs(sized);
  app.add_option("--pages", pages, "base (the default), thp or 2MiB")
      ->check(CLI::IsMember(names))
      ->needs(sized);
  app.add_option("--chunk", chunk, "Of one registration (default 64GiB)")->needs(sized);
  app.add_flag("--json", chosen.json, "Print JSON");
  app.add_flag("--require", chosen.require, "Exit 1 when a point that was held out is missed")
      ->excludes(sized);
  app.parse(argc, argv);
  chosen.load.pages = page_names().at(pages);
  chosen.predicts = !size.empty();
  if (chosen.predicts) {
    chosen.load.bytes = cli::parse_size(size);
    chosen.load.chunk_bytes = cli::parse_size(chunk);
    constexpr std::uint64_t driver_limit = std::uint64_t{512} << 30U;
    if (chosen.load.chunk_bytes == 0) {
      throw cli::usage_error("--chunk is 0; name a size from 1 byte");
    }
    if (std::min(chosen.load.bytes, chosen.load.chunk_bytes) >= driver_limit) {
      throw cli::usage_error(
          "drivers from R580 on refuse one registration of 512 GiB; choose a "
          "smaller --chunk");
    }
  }
  return chosen;
}

struct judged_point {
  measured_point point;
  double predicted;
  double ratio;  // predicted to measured
  bool held_out;
  bool met;
};

std::vector<judged_point> judge(const std::vector<measured_point>& points, const cost_fit& fit) {
  std::vector<judged_point> judged;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double predicted =
        predict_seconds(fit.parameters, points[i].load, factors_of(fit, points[i].host));
    const double ratio = predicted / points[i].seconds;
    judged.push_back(
        {points[i], predicted, ratio, is_held_out(points, i), is_within_quarter(ratio)});
  }
  return judged;
}

std::string format_seconds(double seconds) {
  return cli::format_fixed(seconds, seconds < 1 ? 3 : seconds < 100 ? 2 : 0);
}

std::string tell_counts(const std::vector<judged_point>& judged, bool held_out) {
  const auto count = [&](bool met_only) {
    return std::count_if(judged.begin(), judged.end(), [&](const judged_point& one) {
      return one.held_out == held_out && (one.met || !met_only);
    });
  };
  return std::to_string(count(true)) + " of " + std::to_string(count(false));
}

std::string to_text(const std::vector<judged_point>& judged, const cost_fit& fit) {
  cli::text_table table;
  for (const char* heading : {"host", "work", "pages"}) {
    table.add_column(heading, cli::align::left);
  }
  for (const char* heading : {"size", "threads", "measured, s", "predicted, s", "ratio"}) {
    table.add_column(heading, cli::align::right);
  }
  for (const char* heading : {"", "", "source"}) {
    table.add_column(heading, cli::align::left);
  }
  for (const judged_point& one : judged) {
    const workload& load = one.point.load;
    table.add_row({std::string(one.point.host), name_of(load.work), name_of(load.pages),
                   cli::format_bytes(load.bytes), std::to_string(load.threads * load.nodes),
                   format_seconds(one.point.seconds), format_seconds(one.predicted),
                   cli::format_fixed(one.ratio, 2), one.held_out ? "held out" : "fitted",
                   one.met ? "within 25 %" : "missed", std::string(one.point.source)});
  }
  const cost_parameters& found = fit.parameters;
  std::string text = table.to_text() + "\nwithin 25 %: " + tell_counts(judged, true) +
                     " held out, " + tell_counts(judged, false) + " fitted\n";
  text += "a GB in one thread: zeroing " + cli::format_fixed(found.zero, 3) + " s, faults " +
          cli::format_fixed(found.fault, 3) + " s; a node's threads are worth at most " +
          cli::format_fixed(found.saturation, 1) +
          "\nregistration: " + cli::format_fixed(found.registration, 3) + " s a GB, huge pages " +
          cli::format_fixed(found.huge_page_gain, 2) + " times faster, and " +
          cli::format_fixed(found.registration_call * 1e3, 1) + " ms a call\n";
  for (const host_factors& one : fit.hosts) {
    text += "host " + one.host + ": populating x " + cli::format_fixed(one.populate, 2) +
            ", registering x " + cli::format_fixed(one.registration, 2) + "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const workload& load) {
  return {{"work", name_of(load.work)}, {"pages", name_of(load.pages)},
          {"bytes", load.bytes},        {"chunk_bytes", load.chunk_bytes},
          {"nodes", load.nodes},        {"threads_per_node", load.threads}};
}

nlohmann::ordered_json to_json(const cost_fit& fit) {
  const cost_parameters& found = fit.parameters;
  nlohmann::ordered_json document{{"zero_seconds_per_gb", found.zero},
                                  {"fault_seconds_per_gb", found.fault},
                                  {"saturation_threads", found.saturation},
                                  {"registration_seconds_per_gb", found.registration},
                                  {"huge_page_gain", found.huge_page_gain},
                                  {"registration_call_seconds", found.registration_call}};
  for (const host_factors& one : fit.hosts) {
    document["hosts"].push_back({{"host", one.host},
                                 {"populate_factor", one.populate},
                                 {"registration_factor", one.registration}});
  }
  return document;
}

int show_points(const std::vector<measured_point>& points, const cost_fit& fit,
                const settings& chosen) {
  const std::vector<judged_point> judged = judge(points, fit);
  if (chosen.json) {
    nlohmann::ordered_json document{{"model", to_json(fit)}};
    for (const judged_point& one : judged) {
      nlohmann::ordered_json entry = to_json(one.point.load);
      entry["host"] = one.point.host;
      entry["source"] = one.point.source;
      entry["measured_seconds"] = one.point.seconds;
      entry["predicted_seconds"] = one.predicted;
      entry["ratio"] = one.ratio;
      entry["held_out"] = one.held_out;
      entry["within_quarter"] = one.met;
      document["points"].push_back(std::move(entry));
    }
    std::cout << document.dump(2) << "\n" << std::flush;
  } else {
    std::cout << to_text(judged, fit) << std::flush;
  }
  const bool any_missed = std::any_of(judged.begin(), judged.end(), [](const judged_point& one) {
    return one.held_out && !one.met;
  });
  return chosen.require && any_missed ? 1 : 0;
}

// A prediction, and the least and most with the factors of the fitted hosts.
struct prediction {
  workload load;
  double seconds;
  double least;
  double most;
};

std::vector<prediction> predict_all(const cost_fit& fit, workload load) {
  std::vector<prediction> predictions;
  for (const work_kind work :
       {work_kind::populate, work_kind::register_resident, work_kind::populate_then_register,
        work_kind::pipelined, work_kind::driver_call}) {
    load.work = work;
    const double usual = predict_seconds(fit.parameters, load);
    prediction one{load, usual, usual, usual};
    for (const host_factors& host : fit.hosts) {
      const double seconds = predict_seconds(fit.parameters, load, host);
      one.least = std::min(one.least, seconds);
      one.most = std::max(one.most, seconds);
    }
    predictions.push_back(one);
  }
  return predictions;
}

void show_predictions(const cost_fit& fit, const settings& chosen) {
  const std::vector<prediction> predictions = predict_all(fit, chosen.load);
  if (chosen.json) {
    nlohmann::ordered_json document{{"model", to_json(fit)}};
    for (const prediction& one : predictions) {
      nlohmann::ordered_json entry = to_json(one.load);
      entry["seconds"] = one.seconds;
      entry["least_seconds"] = one.least;
      entry["most_seconds"] = one.most;
      document["predictions"].push_back(std::move(entry));
    }
    std::cout << document.dump(2) << "\n" << std::flush;
    return;
  }
  cli::text_table table;
  table.add_column("work", cli::align::left);
  for (const char* heading : {"seconds", "fastest host", "slowest host"}) {
    table.add_column(heading, cli::align::right);
  }
  for (const prediction& one : predictions) {
    table.add_row({name_of(one.load.work), format_seconds(one.seconds), format_seconds(one.least),
                   format_seconds(one.most)});
  }
  std::cout << table.to_text() << std::flush;
}

int fit_and_tell(const settings& chosen) {
  const std::vector<measured_point> points = published_points();
  const cost_fit fit = fit_cost_model(points);
  if (!chosen.predicts) {
    return show_points(points, fit, chosen);
  }
  show_predictions(fit, chosen);
  return 0;
}

int run(int argc, const char* const* argv) {
  CLI::App app(
      "Predicts the time to make host memory resident and to register it; without a size, shows "
      "the model beside published times.",
      "numapool_model");
  app.footer(
      "Exit status: 0 shown; 1 it could not be, or with --require a point held out is missed; "
      "2 the command line is wrong.");
  return run_program(app, [&] { return fit_and_tell(read_settings(app, argc, argv)); });
}

}  // namespace
}  // namespace numapool::bench

// What nobody foresaw may end it.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
