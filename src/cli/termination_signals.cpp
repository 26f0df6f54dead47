// SPDX-License-Identifier: Apache-2.0
#include "cli/termination_signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace numapool::cli {
namespace {

// What the handler knows.
std::atomic<int> first_signal{0};
std::atomic<int> pipe_to_write{-1};
static_assert(std::atomic<int>::is_always_lock_free, "it is used in a signal handler");

void note_signal(int signal) {
  const int error_number = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    const char byte = 0;
    static_cast<void>(!::write(pipe_to_write.load(), &byte, 1));  // it is empty, so it has room
  } else {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = error_number;
}

}  // namespace

termination_signals::termination_signals() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "no pipe could be made to wait for signals with");
  }
  read_end_ = ends[0];
  write_end_ = ends[1];
  if (pipe_to_write.exchange(write_end_) != -1) {
    std::abort();
  }
  first_signal = 0;
  taken_.reserve(2);
  take(SIGINT);
  take(SIGTERM);
}

termination_signals::~termination_signals() {
  for (const taken& one : taken_) {
    ::sigaction(one.signal, &one.before, nullptr);
  }
  pipe_to_write = -1;
  ::close(write_end_);
  ::close(read_end_);
}

void termination_signals::take(int signal) {
  taken one{signal, {}};
  if (::sigaction(signal, nullptr, &one.before) != 0 || one.before.sa_handler == SIG_IGN) {
    return;
  }
  struct sigaction noting {};
  noting.sa_handler = &note_signal;
  // No SA_RESTART: a terminal's write() may block though poll() said that it would not.
  ::sigfillset(&noting.sa_mask);
  ::sigaction(signal, &noting, nullptr);
  taken_.push_back(one);
}

int termination_signals::arrived() const noexcept {
  return first_signal;
}

bool termination_signals::wait_until_writable(int descriptor) const noexcept {
  pollfd both[2] = {{read_end_, POLLIN, 0}, {descriptor, POLLOUT, 0}};
  while (::poll(both, 2, -1) < 0 && errno == EINTR) {
  }
  return (both[0].revents & POLLIN) == 0;
}

}  // namespace numapool::cli
