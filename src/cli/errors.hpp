// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the command line can fail with besides numapool::error, and how any failure is told.
// Threads: values and free functions; safe.

#include <stdexcept>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <numapool/error.hpp>

namespace numapool::cli {

// The exit statuses; a signal that ended the wait of --hold adds its number to signal_base, as a
// shell would report it.
inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int signal_base = 128;

/// The command line itself is wrong: one sentence that names the input and the way out. Exit
/// status 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A result could not be written where it was wanted. Exit status 1.
class output_error : public std::runtime_error {
 public:
  output_error(const std::string& target, int error_number)
      : std::runtime_error("cannot write to " + target + ": " + std::generic_category().message(error_number) +
                           "; name a place that can be written and has room"),
        error_number_(error_number) {}
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

/// SIGINT or SIGTERM arrived before the work was done; everything was undone. Exit status 128 +
/// signal.
class interrupted : public std::runtime_error {
 public:
  explicit interrupted(int signal)
      : std::runtime_error("interrupted by signal " + std::to_string(signal) +
                           "; everything was released, run it again to allocate"),
        signal_(signal) {}
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// A failure as every command tells it.
struct report {
  std::string code;     // stable, for machines
  std::string message;  // one sentence
  std::string operation = "none";
  node_id node;  // unknown: none
  std::size_t size_bytes = 0;
  int error_number = 0;  // 0: the kernel said nothing
  int exit_status = exit_failed;
};

/// The exception being handled. Requires: called inside a catch block.
[[nodiscard]] report report_current_exception() noexcept;

/// {"error":{...}} as documented.
[[nodiscard]] nlohmann::ordered_json error_document(const report& what);

/// The errno number that `code` carries, 0 when it carries none (a CUDA code, an errc, no error).
[[nodiscard]] int errno_of(const boost::system::error_code& code) noexcept;

}  // namespace numapool::cli
