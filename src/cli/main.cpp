// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <ostream>

#include "cli/command_line.hpp"
#include "cli/descriptor_output.hpp"

int main(int argc, char** argv) {
  using namespace numapool::cli;
  keep_standard_descriptors_closed();
  descriptor_output out_file(STDOUT_FILENO);
  descriptor_output err_file(STDERR_FILENO);
  std::ostream out(&out_file);
  std::ostream err(&err_file);
  console where{out, err, isatty(STDERR_FILENO) == 1};
  return run_command_line(argc, argv, where);
}
