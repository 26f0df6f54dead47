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
  std::chrono::milliseconds time{2000};  // from start to answer, everything included
  std::size_t output_bytes = 65536;      // more is read no further, and the answer says so
};

struct program_answer {
  int exit_status = -1;  // 0..255; -1: it was ended by a signal, or by us, or nobody knows
  bool is_status_lost =
      false;  // nobody knows: it has exited, but others took its status (see run())
  bool is_timed_out = false;
  bool is_cut = false;  // more output than the limit
  std::string output;   // standard output alone
};

class programs {
 public:
  programs() = default;
  programs(const programs&) = delete;
  programs& operator=(const programs&) = delete;
  virtual ~programs() = default;
  // Runs argv[0], found in PATH, with argv, without a shell; standard input and error are
  // /dev/null. At the time limit its whole process group is killed, and neither a child that holds
  // the pipe nor a program stuck in the kernel holds the caller longer. What it leaves running in
  // its group is killed when it exits, too. Leaves no zombie of a program that ended, and no
  // thread. No file descriptor of the caller's is inherited, and no signal handler, mask or child
  // of the caller's is touched (no SIGCHLD handling, no wait for other children). In a process that
  // ignores SIGCHLD or reaps every child, the exit status is lost before Linux 6.15, and later
  // where the program has ended before we could take hold of it. A set-user-id process takes
  // absolute paths alone: PATH is its caller's. Errors: the errno of not starting it (ENOENT: not
  // in PATH); the answer's flags for the rest.
  virtual boost::system::error_code run(const std::vector<std::string>& argv,
                                        const program_limits& limits,
                                        program_answer& answer) noexcept = 0;
};

[[nodiscard]] programs& process_programs() noexcept;

}  // namespace numapool::platform
