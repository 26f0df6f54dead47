// SPDX-License-Identifier: Apache-2.0
// numapool doctor: what is in the way of memory on its GPU's node here, and what to do about it.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cli/command.hpp"
#include "cli/doctor_report.hpp"
#include "cli/errors.hpp"

namespace numapool::cli {

namespace {

std::string padded(std::string_view text, std::size_t width) {
  std::string wide(text);
  wide.resize(std::max(width, wide.size()), ' ');
  return wide;
}

std::string counted(const std::vector<check>& checks, check_status status,
                    const std::string& noun) {
  const auto count = std::count_if(checks.begin(), checks.end(),
                                   [status](const check& each) { return each.status == status; });
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

int examine(bool as_json, console& where) {
  diagnosis_options options;
  options.initialise_cuda = true;  // this process ends with the answer
  const std::vector<check> checks = diagnose(options);
  if (as_json) {
    write_json(where.out, doctor_json(checks));
  } else {
    where.out << doctor_text(checks);
    flush_or_throw(where.out);
  }
  return exit_done;
}

}  // namespace

nlohmann::ordered_json doctor_json(const std::vector<check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const check& each : checks) {
    nlohmann::ordered_json one;
    one["name"] = each.name;
    one["status"] = name(each.status);
    one["value"] = each.value;
    one["meaning"] = each.meaning;
    one["fix"] =
        each.fix.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(each.fix);
    list.push_back(std::move(one));
  }
  nlohmann::ordered_json document;
  document["checks"] = std::move(list);
  return document;
}

std::string doctor_text(const std::vector<check>& checks) {
  constexpr std::size_t status_width = 6;
  std::string text;
  for (const check& each : checks) {
    std::string line = padded(name(each.status), status_width) + each.name + ": " + each.value;
    line += each.meaning.empty() ? "" : "; " + each.meaning;
    line += each.fix.empty() ? "" : "; to do: " + each.fix;
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += line + "\n";
  }
  return text + "\n" + counted(checks, check_status::fail, "failure") + ", " +
         counted(checks, check_status::warn, "warning") + "\n";
}

void register_doctor(CLI::App& app, chosen_command& chosen) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what stands in the way of memory on its GPU's node, and what to do");
  command->add_flag("--json", *as_json, "Print one JSON document instead of lines");
  command->footer(
      "A line a check: ok, info (no hindrance), warn (it works, with less), fail. The exit status\n"
      "is 0 whatever was found. CUDA is initialised, to see whether it can be used.\n"
      "\n"
      "Example:\n"
      "  numapool doctor\n");
  command->callback([as_json, &chosen] {
    chosen.json = *as_json;
    chosen.run = [as_json](console& where) {
      return examine(*as_json, where);
    };
  });
}

}  // namespace numapool::cli
