// SPDX-License-Identifier: Apache-2.0
#pragma once

// The built command line as a child process, with both its outputs. Threads: one thread uses an object.

#include <sys/types.h>

#include <string>
#include <vector>

namespace numapool::tests {

/// The path of the program under test: the environment variable NUMAPOOL_CLI.
[[nodiscard]] std::string cli_path();

/// Owns: the child, which is killed and reaped on destruction.
class cli_child {
 public:
  explicit cli_child(const std::vector<std::string>& arguments);
  cli_child(const cli_child&) = delete;
  cli_child& operator=(const cli_child&) = delete;
  ~cli_child();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Reads the standard output until it has a whole JSON document or ends, at most `seconds` long.
  [[nodiscard]] std::string read_document(int seconds);
  void signal(int number) const;
  /// Reads all there is and reaps. The exit status, or -signal if one ended it.
  int wait();

  // Complete after wait().
  std::string out;
  std::string err;

 private:
  bool read_some(int milliseconds);

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
};

struct cli_result {
  int status = 0;
  std::string out;
  std::string err;
};
[[nodiscard]] cli_result run_cli(const std::vector<std::string>& arguments);

}  // namespace numapool::tests
