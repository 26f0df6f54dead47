// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <numapool/device.hpp>

#include "device/device_sources.hpp"

namespace numapool {
namespace {

std::vector<host_device> listed_by_sysfs(const device::gpu_functions& functions) {
  std::vector<host_device> devices;
  for (const device::gpu_function& function : functions.gpus) {
    devices.push_back({function.address, {}, {}});
  }
  return devices;
}

std::vector<host_device> listed_by_nvml(const device::nvml_devices& known) {
  std::vector<host_device> devices;
  for (const platform::nvml_device& device : known) {
    if (const auto address = device::address_of_name(device.pci_address)) {
      devices.push_back({*address, {}, {}});
    }
  }
  std::sort(devices.begin(), devices.end(),
            [](const host_device& a, const host_device& b) { return a.address < b.address; });
  return devices;
}

}  // namespace

std::vector<host_device> device::host_devices_of(const device_sources& sources) {
  std::vector<host_device> devices = listed_by_sysfs(*functions_of(sources));
  std::string ignored;
  const auto known = ask_nvml(sources, ignored);
  if (known == nullptr) {
    return devices;
  }
  if (devices.empty()) {
    devices = listed_by_nvml(*known);
  }
  for (host_device& device : devices) {
    if (const auto* const told = find_nvml_device(*known, device.address)) {
      device.name = told->name;
      device.uuid = told->uuid;
    }
  }
  return devices;
}

std::vector<host_device> host_devices(const topology_options& options) {
  if (!options.root.empty()) {
    return listed_by_sysfs(device::read_gpu_functions(*platform::files_below(options.root)));
  }
  const auto nodes = topology::system();
  return device::host_devices_of(device::sources_of(platform::this_machine(), *nodes));
}

}  // namespace numapool
