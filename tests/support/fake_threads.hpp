// SPDX-License-Identifier: Apache-2.0
#pragma once

// Real threads on simulated CPUs: a thread's mask is a note that only the fakes read. Threads: safe
// to share.

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "platform/platform.hpp"

namespace numapool::test {

class fake_threads final : public platform::threads {
 public:
  /// What a mask becomes when a thread is started with it.
  enum class mask_rule {
    cut,  ///< cut to the allowed CPUs without a word, as a cpuset does; EINVAL when nothing is left
    refuse  ///< EINVAL whatever it is
  };
  struct thread_record {
    std::string name;
    cpu_set cpus;         ///< as asked for
    bool is_live = true;  ///< not joined yet
  };

  fake_threads(cpu_set allowed, std::map<cpu_id, node_id> node_of_cpu)
      : allowed_(std::move(allowed)), node_of_cpu_(std::move(node_of_cpu)) {}

  void set_allowed(cpu_set cpus);
  void set_mask_rule(mask_rule rule);
  /// EAGAIN for every start after `count` more; no count: never.
  void refuse_after(std::size_t count);
  void accept_all();
  /// As after a fork, seen from the child.
  void set_generation(std::uint64_t generation);

  [[nodiscard]] std::size_t live() const;  ///< started and not joined
  [[nodiscard]] std::vector<thread_record> history() const;
  [[nodiscard]] std::size_t default_policy_calls() const;
  /// The node whose CPU the calling thread runs on; unknown when its CPU is on none.
  [[nodiscard]] node_id current_node() const;

  platform::error_code start(const std::string& name, const cpu_set& cpus,
                             std::function<void()> body,
                             std::unique_ptr<platform::thread>& started) override;
  platform::error_code get_affinity(cpu_set& cpus) const override;
  platform::error_code set_affinity(const cpu_set& cpus) override;
  platform::error_code get_process_affinity(cpu_set& cpus) const override;
  platform::error_code use_default_memory_policy() override;
  platform::error_code give_way_to_others() override;
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const noexcept override;  ///< the real one
  platform::error_code current_cpu(cpu_id& cpu, node_id& node) const override;
  [[nodiscard]] std::uint64_t process_generation() const noexcept override;

 private:
  class fake_thread;
  static std::uint64_t next_serial();
  [[nodiscard]] cpu_set current_mask() const;
  void note_joined(std::size_t index);

  const std::uint64_t serial_ = next_serial();  // an address may be used again
  mutable std::mutex mutex_;
  cpu_set allowed_;
  const std::map<cpu_id, node_id> node_of_cpu_;
  mask_rule mask_rule_ = mask_rule::cut;
  std::size_t starts_left_ = SIZE_MAX;
  std::uint64_t generation_ = 0;
  std::size_t default_policy_calls_ = 0;
  std::vector<thread_record> history_;
};

}  // namespace numapool::test
