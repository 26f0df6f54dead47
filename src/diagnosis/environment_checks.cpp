// SPDX-License-Identifier: Apache-2.0

// The gate, NeMo-RL's affinity file, and the variables that change what numapool does.

#include <cstdlib>
#include <string>

#include <numapool/environment.hpp>

#include "base/text.hpp"
#include "diagnosis/checks.hpp"

namespace numapool::diagnosis {
namespace {

constexpr const char* default_affinity_file = "/tmp/nrl_gpu_cpu_affinity";  // NeMo-RL's own

/// The first line without a colon, which ends NeMo-RL's reading; "" when there is none.
std::string bad_line(const std::string& text) {
  for (const std::string_view line : base::lines_of(text)) {
    if (!base::trimmed(line).empty() && line.find(':') == std::string_view::npos) {
      return std::string(line);
    }
  }
  return {};
}

void add_if_set(examination& job, const char* variable) {
  if (const char* const value = std::getenv(variable)) {
    job.add({"environment", check_status::info, std::string(variable) + "=" + value,
             "it is in force", ""});
  }
}

}  // namespace

void check_affinity_file(examination& job) {
  const char* const named = std::getenv(environment::nrl_affinity_file);
  const std::string path = named != nullptr ? named : default_affinity_file;
  const std::string text = job.text(path);
  if (text.empty()) {
    const bool is_missed = named != nullptr;
    job.add({"affinity_file", is_missed ? check_status::warn : check_status::info,
             path + ": not there, or empty", "NeMo-RL's functions bind nothing",
             is_missed ? "write it, or unset " + std::string(environment::nrl_affinity_file) : ""});
  } else if (const std::string wrong = bad_line(text); !wrong.empty()) {
    job.add({"affinity_file", check_status::warn, path + ": " + base::quoted(wrong),
             "NeMo-RL's functions stop at this line, which has no colon",
             "write each line as GPU:CPULIST"});
  } else {
    job.add({"affinity_file", check_status::ok, path,
             std::to_string(base::lines_of(text).size()) + " lines", ""});
  }
}

void check_gate(examination& job) {
  const bool is_open = is_numa_enabled();
  job.add({"gate", check_status::info, is_open ? "open" : "closed",
           is_open ? "make_pinned_storage goes through the nodes' workers"
                   : "make_pinned_storage takes the plain path; worker_pool does not ask",
           is_open ? "" : "export DYN_KVBM_ENABLE_NUMA=1, and no DYN_MEMORY_DISABLE_NUMA"});
}

void check_environment(examination& job) {
  for (const char* const variable : environment::all) {
    add_if_set(job, variable);
  }
  for (const char* const variable : environment::local_ranks) {
    add_if_set(job, variable);
  }
}

}  // namespace numapool::diagnosis
