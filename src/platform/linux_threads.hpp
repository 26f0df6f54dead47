// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "platform/platform.hpp"

namespace numapool::platform {

/// pthreads and CPU masks of any width.
class linux_threads final : public threads {
 public:
  linux_threads();
  error_code start(const std::string& name, const cpu_set& cpus, std::function<void()> body,
                   std::unique_ptr<thread>& started) override;
  error_code get_affinity(cpu_set& cpus) const override;
  error_code set_affinity(const cpu_set& cpus) override;
  error_code get_process_affinity(cpu_set& cpus) const override;
  error_code use_default_memory_policy() override;
  error_code give_way_to_others() override;
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const noexcept override;
  error_code current_cpu(cpu_id& cpu, node_id& node) const override;
  [[nodiscard]] std::uint64_t process_generation() const noexcept override;
};

}  // namespace numapool::platform
