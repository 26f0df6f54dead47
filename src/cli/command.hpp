// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a subcommand is: one file with one function that registers it. command_line.cpp lists them.

#include <functional>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <numapool/error.hpp>

namespace numapool::cli {

/// Where a command writes.
struct console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;  // progress is shown there

  /// See descriptor_output::set_gate(); nothing where `out` and `err` are no files.
  void set_gates(const std::function<bool(int descriptor)>& may_write);
};

/// The subcommand that the arguments chose, ready to run.
struct chosen_command {
  bool json = false;  // its failures are told as a document
  std::function<int(console&)>
      run;  // returns the exit status, throws what report_current_exception() knows
};

void register_topology(CLI::App& app, chosen_command& chosen);
void register_devices(CLI::App& app, chosen_command& chosen);
void register_doctor(CLI::App& app, chosen_command& chosen);
void register_allocate(CLI::App& app, chosen_command& chosen);

/// Writes `document` and a newline, and flushes. Text that is not UTF-8 is replaced, never an
/// error.
void write_json(std::ostream& out, const nlohmann::ordered_json& document);
/// Flushes. Throws output_error when `out` has refused anything.
void flush_or_throw(std::ostream& out);

}  // namespace numapool::cli
