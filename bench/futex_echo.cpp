// SPDX-License-Identifier: Apache-2.0
#include "futex_echo.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

namespace numapool::bench {
namespace {

using word = std::atomic<std::uint32_t>;

void call(word& at, int operation, std::uint32_t value) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&at), operation, value, nullptr, nullptr,
            0);
}

void set(word& at) {
  at.store(1);
  call(at, FUTEX_WAKE_PRIVATE, 1);
}

void wait_and_clear(word& at) {
  while (at.exchange(0) == 0) {
    call(at, FUTEX_WAIT_PRIVATE, 0);
  }
}

}  // namespace

futex_echo::futex_echo() : thread_([this] { echo(); }) {}

futex_echo::~futex_echo() {
  is_closed_ = true;
  set(asked_);
  thread_.join();
}

void futex_echo::round_trip() {
  set(asked_);
  wait_and_clear(answered_);
}

double futex_echo::wake_seconds() {
  const auto begun = std::chrono::steady_clock::now();
  set(asked_);
  const auto woken = std::chrono::steady_clock::now();
  wait_and_clear(answered_);
  return std::chrono::duration<double>(woken - begun).count();
}

void futex_echo::echo() {
  for (;;) {
    wait_and_clear(asked_);
    if (is_closed_) {
      return;
    }
    set(answered_);
  }
}

}  // namespace numapool::bench
