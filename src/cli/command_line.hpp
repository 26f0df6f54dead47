// SPDX-License-Identifier: Apache-2.0
#pragma once

// The whole program behind main().

#include "cli/command.hpp"

namespace numapool::cli {

/// Parses the arguments, runs the chosen command, and tells any failure on `where`. Returns the
/// exit status. Never throws.
[[nodiscard]] int run_command_line(int argc, const char* const* argv, console& where) noexcept;

}  // namespace numapool::cli
