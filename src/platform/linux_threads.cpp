// SPDX-License-Identifier: Apache-2.0
#include "platform/linux_threads.hpp"

#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/failures.hpp"

namespace numapool::platform {
namespace {

using base::last_system_error;
using base::system_error;

// How often this process's line of descent has forked since the library was loaded.
std::atomic<std::uint64_t> generation{0};

// A kernel CPU mask of any width: glibc's cpu_set_t stops at 1024 CPUs.
class kernel_mask {
 public:
  explicit kernel_mask(std::size_t words) : words_(words == 0 ? 1 : words, 0) {}
  explicit kernel_mask(const cpu_set& cpus) : words_(cpus.words().begin(), cpus.words().end()) {
    if (words_.empty()) {
      words_.push_back(0);
    }
  }
  [[nodiscard]] ::cpu_set_t* get() noexcept {
    return reinterpret_cast<::cpu_set_t*>(words_.data());
  }
  [[nodiscard]] const ::cpu_set_t* get() const noexcept {
    return reinterpret_cast<const ::cpu_set_t*>(words_.data());
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept {
    return words_.size() * sizeof(unsigned long);
  }
  [[nodiscard]] cpu_set to_set() const {
    cpu_set cpus;
    for (std::size_t bit = 0; bit < words_.size() * 64; ++bit) {
      if (((words_[bit / 64] >> (bit % 64)) & 1U) != 0) {
        cpus.insert(cpu_id(static_cast<std::uint32_t>(bit)));
      }
    }
    return cpus;
  }

 private:
  std::vector<unsigned long> words_;
};

error_code affinity_of(pid_t thread_id, cpu_set& cpus) {
  // EINVAL means that the kernel's own mask is wider (sched_getaffinity(2), NOTES).
  for (std::size_t words = 16; words <= cpu_set::id_max / 64; words *= 2) {
    kernel_mask mask(words);
    if (::sched_getaffinity(thread_id, mask.size_bytes(), mask.get()) == 0) {
      cpus = mask.to_set();
      return {};
    }
    if (errno != EINVAL) {
      return last_system_error();
    }
  }
  return system_error(EINVAL);
}

struct thread_start {
  std::string name;
  std::function<void()> body;
};

void* run_thread(void* argument) {
  const std::unique_ptr<thread_start> start(static_cast<thread_start*>(argument));
  ::pthread_setname_np(::pthread_self(), start->name.c_str());
  start->body();
  return nullptr;
}

class linux_thread final : public thread {
 public:
  explicit linux_thread(pthread_t handle) noexcept : handle_(handle) {}
  ~linux_thread() override { NUMAPOOL_CHECK(joined_); }
  void join() noexcept override {
    NUMAPOOL_CHECK(::pthread_join(handle_, nullptr) == 0);
    joined_ = true;
  }

 private:
  pthread_t handle_;
  bool joined_ = false;
};

// pthread attributes that destroy themselves.
struct attributes {
  attributes() { NUMAPOOL_CHECK(::pthread_attr_init(&value) == 0); }
  ~attributes() { ::pthread_attr_destroy(&value); }
  attributes(const attributes&) = delete;
  attributes& operator=(const attributes&) = delete;
  pthread_attr_t value{};
};

}  // namespace

linux_threads::linux_threads() {
  ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
}

// The affinity goes into the creation attributes: the thread then starts on its CPU. A thread that
// pins itself first runs wherever it was born (21 us against 4 ms beside a busy creator, measured).
// Signals are the application's.
error_code linux_threads::start(const std::string& name, const cpu_set& cpus,
                                std::function<void()> body, std::unique_ptr<thread>& started) {
  NUMAPOOL_CHECK(name.size() <= 15);
  attributes wanted;
  if (!cpus.empty()) {
    const kernel_mask mask(cpus);
    const int error = ::pthread_attr_setaffinity_np(&wanted.value, mask.size_bytes(), mask.get());
    if (error != 0) {
      return system_error(error);
    }
  }
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_attr_setsigmask_np(&wanted.value, &all);
  auto argument = std::make_unique<thread_start>(thread_start{name, std::move(body)});
  pthread_t handle{};
  const int error = ::pthread_create(&handle, &wanted.value, &run_thread, argument.get());
  if (error != 0) {
    return system_error(error);
  }
  static_cast<void>(argument.release());  // the thread's now
  started = std::make_unique<linux_thread>(handle);
  return {};
}

error_code linux_threads::get_affinity(cpu_set& cpus) const {
  return affinity_of(0, cpus);
}

error_code linux_threads::set_affinity(const cpu_set& cpus) {
  const kernel_mask mask(cpus);
  return ::sched_setaffinity(0, mask.size_bytes(), mask.get()) == 0 ? error_code()
                                                                    : last_system_error();
}

error_code linux_threads::get_process_affinity(cpu_set& cpus) const {
  return affinity_of(::getpid(), cpus);
}

error_code linux_threads::use_default_memory_policy() {
  return ::set_mempolicy(MPOL_DEFAULT, nullptr, 0) == 0 ? error_code() : last_system_error();
}

error_code linux_threads::give_way_to_others() {
  const sched_param none{};
  return ::sched_setscheduler(0, SCHED_BATCH, &none) == 0 ? error_code() : last_system_error();
}

error_code linux_threads::current_cpu(cpu_id& cpu, node_id& node) const {
  unsigned cpu_number = 0;
  unsigned node_number = 0;
  // The system call, not the vDSO: seccomp and emulators answer for it, and the node is never a
  // stale per-CPU value.
  if (::syscall(SYS_getcpu, &cpu_number, &node_number, nullptr) != 0) {
    return last_system_error();
  }
  cpu = cpu_id(cpu_number);
  node = node_id(node_number);
  return {};
}

std::chrono::nanoseconds linux_threads::cpu_time() const noexcept {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::uint64_t linux_threads::process_generation() const noexcept {
  return generation.load(std::memory_order_relaxed);
}

}  // namespace numapool::platform
