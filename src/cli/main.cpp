// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <iostream>

#include "cli/command_line.hpp"

int main(int argc, char** argv) {
  numapool::cli::console where{std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return numapool::cli::run_command_line(argc, argv, where);
}
