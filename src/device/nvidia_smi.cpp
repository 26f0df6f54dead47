// SPDX-License-Identifier: Apache-2.0
#include "device/nvidia_smi.hpp"

#include <utility>

#include "base/text.hpp"

namespace numapool::device {
namespace {

struct refusal {
  std::string reason;
  bool is_of_any_device = true;
};

/// Why the answer is none; an empty reason where it is one.
refusal judge(const boost::system::error_code& error, const platform::program_answer& answer,
              std::chrono::milliseconds time) {
  if (error) {
    return {"it could not be started: " + error.message()};
  }
  if (answer.is_timed_out) {
    return {"it gave no answer within " + std::to_string(time.count()) + " ms"};
  }
  if (answer.is_cut) {  // first: a cut answer was ended by us, and has no status of its own
    return {"it printed more than any answer is long", false};
  }
  if (answer.is_status_lost) {
    return {"this process lets nobody see how its children ended"};
  }
  if (answer.exit_status < 0) {
    return {"it was ended by a signal"};
  }
  if (answer.exit_status != 0) {
    return {"its exit status is " + std::to_string(answer.exit_status), false};
  }
  return {};
}

}  // namespace

std::vector<std::string> nvidia_smi_command(const std::string& id) {
  return {"nvidia-smi", "topo", "--get-numa-id-of-nearby-cpu", "-i", id};
}

std::optional<node_id> read_nvidia_smi_answer(std::string_view output) {
  const std::string_view line = output.substr(0, output.find('\n'));
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = base::parse_unsigned(base::trimmed(line.substr(colon + 1)));
  if (!number || *number > node_set::id_max) {
    return std::nullopt;
  }
  return node_id(static_cast<std::uint32_t>(*number));
}

nvidia_smi_answer ask_nvidia_smi(platform::programs& programs, device_cache* cache,
                                 const std::string& id, std::chrono::milliseconds time) {
  if (cache != nullptr) {
    if (std::string known = cache->nvidia_smi_failure(id); !known.empty()) {
      return {std::nullopt, std::move(known)};
    }
  }
  platform::program_limits limits;
  limits.time = time;
  platform::program_answer answer;
  const auto error = programs.run(nvidia_smi_command(id), limits, answer);
  refusal why = judge(error, answer, time);
  std::optional<node_id> node;
  if (why.reason.empty()) {
    node = read_nvidia_smi_answer(answer.output);
    if (!node) {
      const auto line = std::string_view(answer.output).substr(0, answer.output.find('\n'));
      why = {"its answer is not one node: " + base::quoted(line), false};
    }
  }
  if (!node && cache != nullptr) {
    cache->keep_nvidia_smi_failure(why.is_of_any_device ? std::string() : id, why.reason);
  }
  return {node, std::move(why.reason)};
}

}  // namespace numapool::device
