// SPDX-License-Identifier: Apache-2.0
#pragma once

// The checks, each of which looks at one thing and appends what it found.

#include <string>
#include <vector>

#include <numapool/doctor.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"

namespace numapool::diagnosis {

/// Everything that can be looked at, and what was found so far.
class examination {
 public:
  examination(platform::platform& machine, const topology& nodes, const diagnosis_options& options)
      : machine_(machine), nodes_(nodes), options_(options) {}

  [[nodiscard]] platform::platform& machine() const noexcept { return machine_; }
  [[nodiscard]] const topology& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const diagnosis_options& options() const noexcept { return options_; }

  void add(check found) { found_.push_back(std::move(found)); }
  [[nodiscard]] std::vector<check> take() { return std::move(found_); }

  /// The file without blanks at both ends; "" when it cannot be read.
  [[nodiscard]] std::string text(const std::string& path) const;
  /// The word in brackets of "always [madvise] never"; "" without one.
  [[nodiscard]] std::string choice(const std::string& path) const;

 private:
  platform::platform& machine_;
  const topology& nodes_;
  const diagnosis_options& options_;
  std::vector<check> found_;
};

/// "8 MiB", "512 GiB": in the largest unit that divides it.
[[nodiscard]] std::string byte_text(std::uint64_t bytes);

void check_nodes(examination& job);
void check_allowed_cpus(examination& job);
void check_allowed_memory(examination& job);
void check_policy(examination& job);
void check_memlock(examination& job);
void check_huge_pages(examination& job);
void check_numa_balancing(examination& job);
void check_cgroups(examination& job);
void check_kernel(examination& job);
void check_cuda(examination& job);
void check_driver_version(examination& job);
void check_nvml(examination& job);
void check_devices(examination& job);
void check_affinity_file(examination& job);
void check_gate(examination& job);
void check_environment(examination& job);

/// All of them, in that order.
[[nodiscard]] std::vector<check> examine(platform::platform& machine, const topology& nodes,
                                         const diagnosis_options& options);

}  // namespace numapool::diagnosis
