// SPDX-License-Identifier: Apache-2.0
#include "stall_watch.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <chrono>
#include <cstddef>

namespace numapool::bench {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t probe_bytes = std::size_t{64} << 10U;

double seconds_of_one_probe() {
  const clock::time_point begun = clock::now();
  void* const made =
      ::mmap(nullptr, probe_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made != MAP_FAILED) {
    *static_cast<volatile char*>(made) = 0;
    ::munmap(made, probe_bytes);
  }
  return std::chrono::duration<double>(clock::now() - begun).count();
}

}  // namespace

stall_watch::stall_watch() : thread_([this] { watch(); }) {}

stall_watch::~stall_watch() {
  is_closed_ = true;
  is_watching_ = true;
  is_watching_.notify_one();
  thread_.join();
}

double stall_watch::longest_during(const std::function<void()>& work) {
  is_watching_ = true;
  is_watching_.notify_one();
  await_probe();
  longest_ = 0;
  work();
  await_probe();  // one may have been held up until the very end
  is_watching_ = false;
  return longest_;
}

void stall_watch::await_probe() const {
  const std::uint64_t before = probes_;
  while (probes_ == before) {
    std::this_thread::yield();
  }
}

// Ahead of all others where the system allows it: on a machine whose CPUs are all busy filling, a
// thread of their own rank would mostly measure its wait for a CPU, which one populate call on one
// CPU does not cause. So it rests between probes, shorter than any stall that counts.
void stall_watch::watch() {
  sched_param priority{};
  priority.sched_priority = 1;
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &priority));
  for (;;) {
    is_watching_.wait(false);
    if (is_closed_) {
      return;
    }
    const double seconds = seconds_of_one_probe();
    double longest = longest_;
    while (seconds > longest && !longest_.compare_exchange_weak(longest, seconds)) {
    }
    ++probes_;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace numapool::bench
