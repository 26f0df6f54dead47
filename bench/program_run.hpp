// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a program of this folder with options of its own does with a failure.

#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/errors.hpp"

namespace numapool::bench {

/// The exit status of `work`, which parses with `app` and then measures: 2 for a wrong command
/// line, 1 for what could not be measured, each told in one line.
template <typename Work>
int run_program(CLI::App& app, Work work) {
  const auto tell = [&app](const std::exception& failed, const char* more, int status) {
    std::cerr << app.get_name() << ": " << failed.what() << more << "\n";
    return status;
  };
  try {
    return work();
  } catch (const CLI::Success& shown) {
    return app.exit(shown);
  } catch (const CLI::ParseError& wrong) {
    return tell(wrong, "; try '--help'.", 2);
  } catch (const cli::usage_error& wrong) {
    return tell(wrong, "", 2);
  } catch (const std::exception& failed) {
    return tell(failed, "", 1);
  }
}

}  // namespace numapool::bench
