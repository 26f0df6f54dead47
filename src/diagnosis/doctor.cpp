// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <numapool/doctor.hpp>

#include "base/text.hpp"
#include "diagnosis/checks.hpp"

namespace numapool {

std::string_view name(check_status status) noexcept {
  constexpr std::array<std::string_view, 4> names{"ok", "info", "warn", "fail"};
  const auto index = static_cast<std::size_t>(status);
  return index < names.size() ? names[index] : "unknown";
}

std::vector<check> diagnose(const diagnosis_options& options) {
  const auto nodes = topology::system();
  return diagnosis::examine(platform::this_machine(), *nodes, options);
}

namespace diagnosis {

std::string examination::text(const std::string& path) const {
  std::string whole;
  return machine_.files.read_text(path, whole) ? std::string() : std::string(base::trimmed(whole));
}

std::string examination::choice(const std::string& path) const {
  const std::string whole = text(path);
  const std::size_t begin = whole.find('[');
  const std::size_t end = whole.find(']');
  return begin == std::string::npos || end == std::string::npos || end < begin
             ? std::string()
             : whole.substr(begin + 1, end - begin - 1);
}

std::string byte_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + units[unit];
}

std::vector<check> examine(platform::platform& machine, const topology& nodes,
                           const diagnosis_options& options) {
  examination job(machine, nodes, options);
  for (const auto look : {check_nodes, check_allowed_cpus, check_allowed_memory, check_policy,
                          check_memlock, check_huge_pages, check_numa_balancing, check_cgroups,
                          check_kernel, check_cuda, check_driver_version, check_nvml, check_devices,
                          check_affinity_file, check_gate, check_environment}) {
    look(job);
  }
  return job.take();
}

}  // namespace diagnosis

}  // namespace numapool
