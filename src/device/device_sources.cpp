// SPDX-License-Identifier: Apache-2.0
#include "device/device_sources.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <numapool/environment.hpp>

namespace numapool::device {
namespace {

constexpr const char* no_nvml_here = "NVML cannot be asked about another machine";

known_gpus from_nvml(const nvml_devices& devices, const gpu_functions& functions) {
  known_gpus known;
  known.is_complete = true;
  known.has_ids = true;
  for (const platform::nvml_device& device : devices) {
    known_gpu gpu{{}, device.uuid, device.mig_uuids, device.name};
    if (const auto address = address_of_name(device.pci_address)) {
      gpu.address = *address;
    }
    for (const gpu_function& function : functions.gpus) {
      if (function.address == gpu.address && !function.model.empty()) {
        gpu.model = function.model;  // finer than a name, and there when NVML has none
      }
    }
    known.has_ids = known.has_ids && !gpu.uuid.empty();
    known.gpus.push_back(std::move(gpu));
  }
  if (!known.has_ids) {
    known.without_ids = "it does not tell the id of each GPU";
  }
  std::sort(known.gpus.begin(), known.gpus.end(),
            [](const known_gpu& a, const known_gpu& b) { return a.address < b.address; });
  return known;
}

known_gpus from_sysfs(const gpu_functions& functions) {
  known_gpus known;
  known.is_complete = functions.is_listed;
  for (const gpu_function& function : functions.gpus) {
    known.gpus.push_back({function.address, {}, {}, function.model});
  }
  return known;
}

/// What CUDA itself shows, where it is initialised.
std::optional<visible_list> ask_cuda(const device_sources& sources) {
  std::vector<platform::initialized_device> devices;
  if (sources.registrar == nullptr || sources.registrar->initialized_devices(devices)) {
    return std::nullopt;
  }
  visible_list list;
  for (const platform::initialized_device& device : devices) {
    visible_device& shown = list.devices.emplace_back();
    shown.address = address_of_name(device.pci_address);
    if (!shown.address) {
      shown.reason = "CUDA gives its address as \"" + device.pci_address + "\"";
    }
  }
  return list;
}

}  // namespace

device_sources sources_of(const platform::platform& machine, const topology& nodes) {
  const bool is_this_machine = &machine == &platform::this_machine();
  device_sources sources{
      machine.files, nodes, &machine.registrar, machine.nvml, machine.programs, nullptr, {}, {}};
  if (is_this_machine && topology::system().get() == &nodes) {
    sources.cache = &process_cache();
  }
  if (const char* const text = std::getenv(environment::visible_devices)) {
    sources.visible_devices = text;
  }
  if (const char* const text = std::getenv(environment::device_order)) {
    sources.device_order = text;
  }
  return sources;
}

std::shared_ptr<const gpu_functions> functions_of(const device_sources& sources) {
  if (sources.cache != nullptr) {
    if (auto kept = sources.cache->functions()) {
      return kept;
    }
  }
  auto fresh = std::make_shared<const gpu_functions>(read_gpu_functions(sources.files));
  if (sources.cache != nullptr && !fresh->gpus.empty()) {
    sources.cache->keep(fresh);
  }
  return fresh;
}

std::shared_ptr<const nvml_devices> ask_nvml(const device_sources& sources, std::string& reason) {
  if (sources.nvml == nullptr) {
    reason = no_nvml_here;
    return nullptr;
  }
  if (sources.cache != nullptr) {
    if (auto kept = sources.cache->nvml()) {
      return kept;
    }
  }
  auto fresh = std::make_shared<nvml_devices>();
  if (const auto error = sources.nvml->devices(*fresh)) {
    const bool is_missing = error == make_error_code(boost::system::errc::not_supported);
    reason = is_missing ? "NVML's library (libnvidia-ml.so.1) is not here"
                        : "NVML cannot be asked (" + error.message() + ")";
    return nullptr;
  }
  if (sources.cache != nullptr && !fresh->empty()) {
    sources.cache->keep(fresh);
  }
  return fresh;
}

const platform::nvml_device* find_nvml_device(const nvml_devices& devices,
                                              const pci_address& address) {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&address](const platform::nvml_device& device) {
        return address_of_name(device.pci_address) == address;
      });
  return found == devices.end() ? nullptr : &*found;
}

known_gpus known_gpus_of(const device_sources& sources, bool needs_ids) {
  const auto functions = functions_of(sources);
  std::string reason = "no id is asked for";
  if (needs_ids || functions->gpus.size() != 1) {
    if (const auto devices = ask_nvml(sources, reason)) {
      return from_nvml(*devices, *functions);
    }
  }
  known_gpus known = from_sysfs(*functions);
  known.without_ids = std::move(reason);
  return known;
}

visible_list visible_list_of(const device_sources& sources) {
  if (std::optional<visible_list> list = ask_cuda(sources)) {
    return std::move(*list);
  }
  const bool needs_ids =
      sources.visible_devices && sources.visible_devices->find('-') != std::string::npos;
  return read_visible_devices(sources.visible_devices, sources.device_order,
                              known_gpus_of(sources, needs_ids));
}

}  // namespace numapool::device
