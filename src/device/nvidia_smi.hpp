// SPDX-License-Identifier: Apache-2.0
#pragma once

// nvidia-smi, the last to be asked: a program that can take tens of seconds, stick in the kernel or
// print anything at all (gpud PR 261, HAMi PR 99).

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <numapool/node.hpp>

#include "device/cache.hpp"
#include "platform/programs.hpp"

namespace numapool::device {

/// nvidia-smi topo --get-numa-id-of-nearby-cpu -i ID
[[nodiscard]] std::vector<std::string> nvidia_smi_command(const std::string& id);

/// "NUMA IDs of closest CPU: 1": the number behind the first line's first colon. Lists, ranges,
/// N/A, colours and everything else are no answer.
[[nodiscard]] std::optional<node_id> read_nvidia_smi_answer(std::string_view output);

struct nvidia_smi_answer {
  std::optional<node_id> node;
  std::string reason;  // why there is none
};

/// Asks within the time. A failure is kept in `cache` (null: nowhere) and is the answer from then
/// on: for any device when the program is missing, hangs or dies, for this one when it refuses it.
[[nodiscard]] nvidia_smi_answer ask_nvidia_smi(platform::programs& programs, device_cache* cache,
                                               const std::string& id,
                                               std::chrono::milliseconds time);

}  // namespace numapool::device
