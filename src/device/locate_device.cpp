// SPDX-License-Identifier: Apache-2.0

// The public questions: who is asked, and how a person names a device.

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>

#include <numapool/device.hpp>
#include <numapool/environment.hpp>
#include <numapool/error.hpp>

#include "base/failures.hpp"
#include "base/text.hpp"
#include "device/device_chain.hpp"
#include "device/pci_functions.hpp"

namespace numapool {
namespace device {
namespace {

[[noreturn]] void raise_unknown(std::string_view text, const std::string& why) {
  base::raise(
      base::make_failure(errc::unknown_device, operation::resolve, base::quoted(text) + " " + why));
}

device_location locate_visible(const device_sources& sources, std::string_view text, int ordinal,
                               const device_options& options) {
  ordinal_location found = locate_ordinal(sources, ordinal, options);
  if (!found.is_shown) {
    raise_unknown(text, "is no device here: " + found.where.reason);
  }
  return std::move(found.where);
}

device_location locate_id(const device_sources& sources, std::string_view text,
                          const device_options& options) {
  const known_gpus known = known_gpus_of(sources, true);
  if (!known.has_ids) {
    raise_unknown(
        text, "cannot be looked up: " + known.without_ids + "; name the device by its PCI address");
  }
  const std::vector<id_match> matches = match_gpu_id(text, known);
  if (matches.size() > 1) {
    std::string candidates;
    for (const id_match& match : matches) {
      candidates += (candidates.empty() ? "" : ", ") + match.uuid;
    }
    raise_unknown(text, "names several devices: " + candidates + "; write more digits");
  }
  if (matches.empty()) {
    raise_unknown(text, "is the id of no GPU that NVML shows; 'nvidia-smi -L' lists them");
  }
  return locate_address(sources, known.gpus[matches.front().gpu].address, options);
}

/// What a buffer may be for: display controllers, as GPUs are, co-processors and accelerators (PCI
/// Code and ID Assignment, base classes 03, 0b and 12); of any vendor.
bool computes(std::string_view pci_class) {
  return pci_class.starts_with("0x03") || pci_class.starts_with("0x0b") ||
         pci_class.starts_with("0x12");
}

std::string why_no_rank() {
  for (const char* const variable : environment::local_ranks) {
    if (const char* const set = std::getenv(variable)) {
      return std::string(variable) + " is " + base::quoted(set) + ", which is no rank";
    }
  }
  return "no launcher has set LOCAL_RANK, SLURM_LOCALID or another of its kind";
}

device_location locate_function(const device_sources& sources, std::string_view text,
                                const pci_address& address, const device_options& options) {
  std::string ignored;
  const auto functions = functions_of(sources);
  const std::optional<std::string> folder = find_pci_folder(sources.files, address);
  const bool is_in_sysfs = folder.has_value();
  const auto known = is_in_sysfs ? nullptr : ask_nvml(sources, ignored);
  const bool is_in_nvml = known != nullptr && find_nvml_device(*known, address) != nullptr;
  if (functions->is_listed && !is_in_sysfs && !is_in_nvml) {
    raise_unknown(text, "is no PCI function of this machine");
  }
  const auto pci_class = is_in_sysfs ? read_attribute(sources.files, path_in(*folder, "class"))
                                     : std::optional<std::string>();
  if (pci_class && !computes(*pci_class)) {
    raise_unknown(text, "is no GPU or accelerator: its PCI class is " + *pci_class +
                            "; 'numapool devices' lists the GPUs");
  }
  return locate_address(sources, address, options);
}

}  // namespace

device_location locate_named(const device_sources& sources, std::string_view text,
                             const device_options& options) {
  const std::string_view named = base::trimmed(text);
  if (named == "local-rank") {
    const std::optional<int> rank = local_rank();
    if (!rank) {
      raise_unknown(text, "is not known: " + why_no_rank() + "; name the device by its ordinal");
    }
    return locate_visible(sources, text, *rank, options);
  }
  if (const auto ordinal = base::parse_unsigned(named); ordinal && *ordinal <= INT_MAX) {
    return locate_visible(sources, text, static_cast<int>(*ordinal), options);
  }
  if (is_gpu_id(named)) {
    return locate_id(sources, named, options);
  }
  if (const auto address = address_of_name(named)) {
    return locate_function(sources, text, *address, options);
  }
  raise_unknown(text,
                "names no device: write a CUDA ordinal, a \"GPU-\" or \"MIG-\" id, a PCI "
                "address as in \"0000:3b:00.0\", or \"local-rank\"");
}

}  // namespace device

namespace {

/// Runs `question` over this machine. Without a topology nothing can be said.
template <typename Question>
device_location ask_this_machine(Question question) {
  boost::system::error_code error;
  const auto nodes = topology::system(error);
  if (nodes == nullptr) {
    device_location nowhere;
    nowhere.reason = error.message();
    return nowhere;
  }
  return question(device::sources_of(platform::this_machine(), *nodes));
}

}  // namespace

device_location locate_device(int ordinal, const device_options& options) {
  return ask_this_machine([&](const device::device_sources& sources) {
    return device::locate_ordinal(sources, ordinal, options).where;
  });
}

device_location locate_device(const pci_address& address, const device_options& options) {
  return ask_this_machine([&](const device::device_sources& sources) {
    return device::locate_address(sources, address, options);
  });
}

device_location locate_device(const pci_address& address, const topology& machine,
                              const topology_options& root) {
  if (root.root.empty()) {
    return device::locate_address(device::sources_of(platform::this_machine(), machine), address,
                                  {.allow_heuristic = false});
  }
  const auto files = platform::files_below(root.root);
  device::device_question question;
  question.address = address;
  return device::locate(device::device_sources{*files, machine}, question, {});
}

device_location locate_device(std::string_view text, const device_options& options) {
  return ask_this_machine([&](const device::device_sources& sources) {
    return device::locate_named(sources, text, options);
  });
}

std::vector<visible_device> visible_devices() {
  boost::system::error_code error;
  const auto nodes = topology::system(error);
  if (nodes == nullptr) {
    return {};
  }
  return device::visible_list_of(device::sources_of(platform::this_machine(), *nodes)).devices;
}

}  // namespace numapool
