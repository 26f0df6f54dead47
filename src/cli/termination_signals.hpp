// SPDX-License-Identifier: Apache-2.0
#pragma once

// SIGINT and SIGTERM as something to wait for.
// Threads: one thread uses an object; the signals may arrive on any.

#include <csignal>
#include <vector>

namespace numapool::cli {

/// While it lives, the first SIGINT or SIGTERM makes descriptor() readable instead of ending the
/// process; a second one ends it at once. A signal that the process was started to ignore (nohup,
/// `trap '' INT`) stays ignored. Requires: no other object of this class lives (checked, aborts).
class termination_signals {
 public:
  /// Errors: std::system_error, where no pipe can be had.
  termination_signals();
  ~termination_signals();
  termination_signals(const termination_signals&) = delete;
  termination_signals& operator=(const termination_signals&) = delete;

  /// Readable as soon as a signal has arrived. Do not read it.
  [[nodiscard]] int descriptor() const noexcept { return read_end_; }
  /// The number of the first signal that arrived; 0: none has.
  [[nodiscard]] int arrived() const noexcept;
  /// Waits until `descriptor` can be written, which it also can where writing fails. False: a
  /// signal arrived first.
  [[nodiscard]] bool wait_until_writable(int descriptor) const noexcept;

 private:
  struct taken {
    int signal;
    struct sigaction before;
  };
  void take(int signal);

  std::vector<taken> taken_;
  int read_end_ = -1;
  int write_end_ = -1;
};

}  // namespace numapool::cli
