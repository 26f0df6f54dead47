// SPDX-License-Identifier: Apache-2.0
#pragma once

// What on this machine, in this container and in this environment stands between a job and memory
// on its GPU's node; and what to do about it. Threads: free functions; safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numapool {

enum class check_status : std::uint8_t {
  ok,    ///< as the job wants it
  info,  ///< worth knowing, and no hindrance
  warn,  ///< it works, with less
  fail,  ///< something that the job needs does not work
};
/// "ok", "info", "warn", "fail".
[[nodiscard]] std::string_view name(check_status status) noexcept;

/// One thing that was looked at.
struct check {
  std::string name;  ///< stable, for machines: "memlock"; several checks may have the same
  check_status status = check_status::ok;
  std::string value;    ///< what was found
  std::string meaning;  ///< what that means for this job, in one sentence
  std::string fix;      ///< what to do; "" where nothing is to be done
};

struct diagnosis_options {
  /// Asks CUDA whether it can be used, which loads and initialises it: children forked later by
  /// this process cannot use CUDA then. False: it is said to be unasked.
  bool initialise_cuda = false;
};

/// Looks at nodes, allowed CPUs and memory, memory policy and move_pages (tried on a mapping of one
/// page that is thrown away), memlock, huge pages, NUMA balancing, cgroup limits, kernel, CUDA and
/// its driver, NVML, the GPUs and their nodes, NeMo-RL's affinity file, the gate and the
/// environment.
/// Blocks: as long as NVML and CUDA take to start (seconds), and nvidia-smi where nothing else
/// knows.
/// Errors: errc::topology_unavailable.
[[nodiscard]] std::vector<check> diagnose(const diagnosis_options& options = {});

}  // namespace numapool
