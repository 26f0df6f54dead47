// SPDX-License-Identifier: Apache-2.0
#include "device/device_chain.hpp"

#include <array>
#include <utility>

#include "base/text.hpp"
#include "device/node_sources.hpp"

namespace numapool {

std::string_view name(node_source source) noexcept {
  constexpr std::array<std::string_view, 8> names{"unknown",     "sysfs",    "local-cpulist",
                                                  "nvml",        "cuda",     "nvidia-smi",
                                                  "single-node", "heuristic"};
  const auto index = static_cast<std::size_t>(source);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace numapool

namespace numapool::device {
namespace {

std::optional<found_node> found(const std::optional<node_id>& node, node_source source) {
  return node ? std::optional<found_node>({*node, source, {}}) : std::nullopt;
}

/// sysfs and local_cpulist.
std::optional<found_node> ask_kernel(const platform::files& files, const topology& nodes,
                                     const pci_address& address, std::string& reason) {
  const auto folder = find_pci_folder(files, address);
  if (!folder) {
    add_clause(reason, "sysfs shows no PCI function " + to_string(address));
    return std::nullopt;
  }
  if (const auto node = ask_sysfs(files, nodes, *folder, reason)) {
    return found(node, node_source::sysfs);
  }
  return found(ask_local_cpulist(files, nodes, *folder, reason), node_source::local_cpulist);
}

/// Everybody who knows, in their order; no guess.
std::optional<found_node> ask_all(const device_sources& sources, const device_question& question,
                                  const device_options& options, std::string& reason) {
  if (question.address) {
    if (auto node = ask_kernel(sources.files, sources.nodes, *question.address, reason)) {
      return node;
    }
    if (const auto node = ask_nvml_affinity(sources, *question.address, reason)) {
      return found(node, node_source::nvml);
    }
  }
  if (const auto node = ask_cuda_attribute(sources, question, reason)) {
    return found(node, node_source::cuda);
  }
  // Starting a program is not worth a question that has one possible answer.
  const bool is_open = !only_node(sources.nodes);
  if (const auto node =
          is_open ? ask_nvidia_smi_node(sources, question, options.nvidia_smi_timeout, reason)
                  : std::nullopt) {
    return found(node, node_source::nvidia_smi);
  }
  return found(only_node(sources.nodes), node_source::single_node);
}

std::optional<found_node> ask_cached(const device_sources& sources, const device_question& question,
                                     const device_options& options, std::string& reason) {
  const bool is_kept = sources.cache != nullptr && question.address;
  if (is_kept) {
    if (auto kept = sources.cache->node_of(*question.address)) {
      reason = kept->reason;
      return kept;
    }
  }
  auto fresh = ask_all(sources, question, options, reason);
  if (fresh) {
    fresh->reason = reason;
  }
  if (fresh && is_kept) {
    sources.cache->keep(*question.address, *fresh);
  }
  return fresh;
}

/// dynamo's guess, where it could be true.
std::optional<found_node> guess(const topology& nodes, const std::optional<int>& ordinal,
                                std::string& reason) {
  if (!ordinal || *ordinal < 0) {
    return std::nullopt;
  }
  const node_id node(static_cast<std::uint32_t>(*ordinal % 2));
  const node_info* const info = nodes.find(node);
  if (info == nullptr || info->usable_cpus.empty()) {
    add_clause(reason, "the guess ordinal % 2 is no node with usable CPUs");
    return std::nullopt;
  }
  add_clause(reason, "the node is the guess ordinal % 2");
  return found(node, node_source::heuristic);
}

void set_node(const topology& nodes, const found_node& answer, device_location& location) {
  location.source = answer.source;
  location.node = nodes.nearest_usable_node(answer.node);
  if (location.node == answer.node) {
    return;
  }
  location.reported_node = answer.node;
  const node_info* const info = nodes.find(answer.node);
  const bool has_cpus = info != nullptr && !info->cpus.empty();
  std::string clause = to_string(answer.node);
  clause += has_cpus ? " has no CPU that this process may use" : " has no CPUs";
  clause += location.node.is_unknown()
                ? ", and no other node has one"
                : ": " + to_string(location.node) + " is the nearest with some";
  add_clause(location.reason, clause);
}

/// The place of an address among the visible devices.
std::optional<int> ordinal_of(const visible_list& list, const pci_address& address) {
  for (std::size_t index = 0; index < list.devices.size(); ++index) {
    if (list.devices[index].address == address) {
      return static_cast<int>(index);
    }
  }
  return std::nullopt;
}

/// The id if it is a whole GPU's in full: "GPU-" and 36 characters. nvidia-smi takes no other.
std::string whole_gpu_id(const std::string& id) {
  constexpr std::size_t full_length = 40;
  return id.starts_with("GPU-") && id.size() == full_length ? id : std::string();
}

device_location not_visible(int ordinal, const visible_list& list) {
  device_location location;
  location.ordinal = ordinal;
  const std::size_t count = list.devices.size();
  location.reason = "this process sees " + std::to_string(count) +
                    (count == 1 ? " device" : " devices") + ", not number " +
                    std::to_string(ordinal);
  if (!list.end.empty()) {
    add_clause(location.reason, list.end);
  }
  return location;
}

}  // namespace

std::optional<found_node> find_kernel_node(const platform::files& files, const topology& nodes,
                                           const pci_address& address, std::string& reason) {
  if (auto node = ask_kernel(files, nodes, address, reason)) {
    return node;
  }
  return found(only_node(nodes), node_source::single_node);
}

device_location locate(const device_sources& sources, const device_question& question,
                       const device_options& options) {
  device_location location;
  location.address = question.address;
  location.ordinal = question.ordinal;
  auto answer = ask_cached(sources, question, options, location.reason);
  if (!answer && options.allow_heuristic) {
    answer = guess(sources.nodes, question.ordinal, location.reason);
  }
  if (answer) {
    set_node(sources.nodes, *answer, location);
  }
  return location;
}

ordinal_location locate_ordinal(const device_sources& sources, int ordinal,
                                const device_options& options) {
  const visible_list list = visible_list_of(sources);
  const auto index = static_cast<std::size_t>(ordinal);
  ordinal_location found;
  found.is_shown = ordinal >= 0 && index < list.devices.size();
  if (ordinal < 0 || (!found.is_shown && list.is_certain)) {
    found.where = not_visible(ordinal, list);
    return found;
  }
  visible_device device;
  device.reason = "nothing here lists the machine's GPUs";
  if (found.is_shown) {
    device = list.devices[index];
  }
  found.where = locate(sources, {device.address, whole_gpu_id(device.uuid), ordinal}, options);
  if (!device.address) {
    std::string reason = device.reason;
    if (!found.where.reason.empty()) {
      add_clause(reason, found.where.reason);
    }
    found.where.reason = std::move(reason);
  }
  return found;
}

device_location locate_address(const device_sources& sources, const pci_address& address,
                               const device_options& options) {
  device_question question;
  question.address = address;
  question.ordinal = ordinal_of(visible_list_of(sources), address);
  return locate(sources, question, options);
}

}  // namespace numapool::device
