// SPDX-License-Identifier: Apache-2.0
#include "support/fake_threads.hpp"

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "base/failures.hpp"

namespace numapool::test {
namespace {

using base::system_error;

// The mask of the calling thread, where one of the fakes has set it.
struct simulated_mask {
  std::uint64_t machine = 0;
  cpu_set cpus;
};
thread_local simulated_mask this_threads_mask;

}  // namespace

class fake_threads::fake_thread final : public platform::thread {
 public:
  fake_thread(fake_threads& machine, std::size_t index, std::thread running)
      : machine_(machine), index_(index), running_(std::move(running)) {}
  ~fake_thread() override {
    EXPECT_FALSE(running_.joinable()) << "a thread was dropped without join()";
  }
  void join() noexcept override {
    running_.join();
    machine_.note_joined(index_);
  }

 private:
  fake_threads& machine_;
  std::size_t index_;
  std::thread running_;
};

std::uint64_t fake_threads::next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void fake_threads::set_allowed(cpu_set cpus) {
  const std::lock_guard lock(mutex_);
  allowed_ = std::move(cpus);
}

void fake_threads::set_mask_rule(mask_rule rule) {
  const std::lock_guard lock(mutex_);
  mask_rule_ = rule;
}

void fake_threads::refuse_after(std::size_t count) {
  const std::lock_guard lock(mutex_);
  starts_left_ = count;
}

void fake_threads::accept_all() {
  refuse_after(SIZE_MAX);
}

void fake_threads::set_generation(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  generation_ = generation;
}

std::size_t fake_threads::live() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const thread_record& record : history_) {
    count += record.is_live ? 1 : 0;
  }
  return count;
}

std::vector<fake_threads::thread_record> fake_threads::history() const {
  const std::lock_guard lock(mutex_);
  return history_;
}

std::size_t fake_threads::default_policy_calls() const {
  const std::lock_guard lock(mutex_);
  return default_policy_calls_;
}

node_id fake_threads::current_node() const {
  const cpu_set mask = current_mask();
  const auto found = mask.empty() ? node_of_cpu_.end() : node_of_cpu_.find(mask.front());
  return found == node_of_cpu_.end() ? node_id::unknown : found->second;
}

platform::error_code fake_threads::start(const std::string& name, const cpu_set& cpus,
                                         std::function<void()> body,
                                         std::unique_ptr<platform::thread>& started) {
  EXPECT_LE(name.size(), 15U) << name;
  cpu_set mask;
  std::size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    mask = cpus.empty() ? allowed_ : cpus & allowed_;
    if (!cpus.empty() && (mask.empty() || mask_rule_ == mask_rule::refuse)) {
      return system_error(EINVAL);
    }
    if (starts_left_ == 0) {
      return system_error(EAGAIN);
    }
    starts_left_ -= starts_left_ == SIZE_MAX ? 0 : 1;
    index = history_.size();
    history_.push_back({name, cpus, true});
  }
  std::thread running([this, mask = std::move(mask), body = std::move(body)] {
    this_threads_mask = {serial_, mask};
    body();
  });
  started = std::make_unique<fake_thread>(*this, index, std::move(running));
  return {};
}

void fake_threads::note_joined(std::size_t index) {
  const std::lock_guard lock(mutex_);
  history_[index].is_live = false;
}

cpu_set fake_threads::current_mask() const {
  if (this_threads_mask.machine == serial_) {
    return this_threads_mask.cpus;
  }
  const std::lock_guard lock(mutex_);
  return allowed_;
}

platform::error_code fake_threads::get_affinity(cpu_set& cpus) const {
  cpus = current_mask();
  return {};
}

platform::error_code fake_threads::set_affinity(const cpu_set& cpus) {
  const std::lock_guard lock(mutex_);
  const cpu_set mask = cpus & allowed_;
  if (mask.empty()) {
    return system_error(EINVAL);
  }
  this_threads_mask = {serial_, mask};
  return {};
}

platform::error_code fake_threads::get_process_affinity(cpu_set& cpus) const {
  const std::lock_guard lock(mutex_);
  cpus = allowed_;
  return {};
}

platform::error_code fake_threads::use_default_memory_policy() {
  const std::lock_guard lock(mutex_);
  ++default_policy_calls_;
  return {};
}

platform::error_code fake_threads::give_way_to_others() {
  return {};
}

std::chrono::nanoseconds fake_threads::cpu_time() const noexcept {
  return platform::this_machine().threads.cpu_time();
}

platform::error_code fake_threads::current_cpu(cpu_id& cpu, node_id& node) const {
  const cpu_set mask = current_mask();
  if (mask.empty()) {
    return system_error(ENOSYS);
  }
  cpu = mask.front();
  node = current_node();
  return {};
}

std::uint64_t fake_threads::process_generation() const noexcept {
  const std::lock_guard lock(mutex_);
  return generation_;
}

}  // namespace numapool::test
