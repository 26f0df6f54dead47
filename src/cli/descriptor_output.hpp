// SPDX-License-Identifier: Apache-2.0
#pragma once

// Output to a file descriptor that says why it failed, and that a signal can end while it blocks.
// Threads: one thread uses an object.

#include <array>
#include <cstddef>
#include <functional>
#include <streambuf>

namespace numapool::cli {

/// The buffer behind a standard output. Iostreams' own keeps no errno, and is not to be
/// interrupted: a pipe that nobody reads would hold the process for ever.
class descriptor_output final : public std::streambuf {
 public:
  /// Does not own `descriptor`.
  explicit descriptor_output(int descriptor);
  ~descriptor_output() override;
  descriptor_output(const descriptor_output&) = delete;
  descriptor_output& operator=(const descriptor_output&) = delete;

  /// errno of the first write that failed; 0: none did. Nothing is written after it.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  /// Asked before each write, with the descriptor: may wait until it can be written; false: write
  /// no more, and ECANCELED is the error. Empty: writes that block, block.
  void set_gate(std::function<bool(int descriptor)> may_write) {
    may_write_ = std::move(may_write);
  }

 private:
  int_type overflow(int_type next) override;
  int sync() override;
  bool write_all();

  const int descriptor_;
  int error_number_ = 0;
  std::function<bool(int)> may_write_;
  // What a pipe that is writable takes without blocking (PIPE_BUF, pipe(7)).
  std::array<char, 4096> pending_{};
};

/// Makes the descriptors 0 to 2 be there: where one is closed, the next file that the process opens
/// would become its standard output, and be written over. What stands in can be neither read nor
/// written (EBADF).
void keep_standard_descriptors_closed() noexcept;

}  // namespace numapool::cli
