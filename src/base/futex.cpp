// SPDX-License-Identifier: Apache-2.0
#include "base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace numapool::base {
namespace {

static_assert(sizeof(std::atomic<int>) == sizeof(int) && std::atomic<int>::is_always_lock_free,
              "the kernel waits on 32 bits");

// Every error means: look again.
void call(const std::atomic<int>& word, int operation, int value) noexcept {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<int>& word, int value) noexcept {
  call(word, FUTEX_WAIT_PRIVATE, value);
}

void futex_wake(const std::atomic<int>& word, int count) noexcept {
  call(word, FUTEX_WAKE_PRIVATE, count);
}

}  // namespace numapool::base
