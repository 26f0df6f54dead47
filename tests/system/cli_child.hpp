// SPDX-License-Identifier: Apache-2.0
#pragma once

// The built command line as a child process, with both its outputs. Threads: one thread uses an
// object.

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
  /// A shell that is to `exec` the program, "$NUMAPOOL_CLI", in surroundings of the test's choice.
  [[nodiscard]] static cli_child in_shell(const std::string& script);
  cli_child(const cli_child&) = delete;
  cli_child& operator=(const cli_child&) = delete;
  ~cli_child();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Reads the standard output until it has a whole JSON document or ends, at most `seconds` long.
  [[nodiscard]] std::string read_document(int seconds);
  void signal(int number) const;
  /// Nobody has read its standard output, and the pipe takes no more.
  [[nodiscard]] bool is_output_full() const;
  /// Reads all there is and reaps. The exit status, or -signal if one ended it.
  int wait();

  // Complete after wait().
  std::string out;
  std::string err;

 private:
  struct whole_command {
    std::vector<std::string> words;
  };
  explicit cli_child(whole_command command);
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
[[nodiscard]] cli_result run_in_shell(const std::string& script);

}  // namespace numapool::tests
