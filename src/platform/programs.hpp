// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seam to other programs: one is run under limits that hold whatever it does.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <boost/system/error_code.hpp>

namespace numapool::platform {

struct program_limits {
  std::chrono::milliseconds time{2000};   // from start to answer, everything included
  std::size_t output_bytes = 64 * 1024;   // more is read no further, and the answer says so
};

struct program_answer {
  int exit_status = -1;      // 0..255; -1: it was ended by a signal, or by us
  bool is_timed_out = false;
  bool is_cut = false;       // more output than the limit
  std::string output;        // standard output alone
};

class programs {
 public:
  programs() = default;
  programs(const programs&) = delete;
  programs& operator=(const programs&) = delete;
  virtual ~programs() = default;
  // Runs argv[0], found in PATH, with argv, without a shell; standard input and error are /dev/null. At the time limit its
  // whole process group is killed, and neither a child that holds the pipe nor a program stuck in the kernel holds the
  // caller longer. Leaves no zombie of a program that ended, and no thread. No file descriptor of the caller's is inherited, and
  // no signal handler, mask or child of the caller's is touched (no SIGCHLD handling, no wait for other children).
  // Errors: the errno of not starting it (ENOENT: not in PATH); the answer's flags for the rest.
  virtual boost::system::error_code run(const std::vector<std::string>& argv, const program_limits& limits,
                                        program_answer& answer) noexcept = 0;
};

[[nodiscard]] programs& process_programs() noexcept;

}  // namespace numapool::platform
