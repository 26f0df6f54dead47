// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who can be asked about devices: of this machine everybody, of a recorded one its files alone.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <numapool/topology.hpp>

#include "device/cache.hpp"
#include "device/visible_devices.hpp"
#include "platform/platform.hpp"

namespace numapool::device {

/// Null members are not asked. All outlive this.
struct device_sources {
  const platform::files& files;
  const topology& nodes;
  platform::registrar* registrar = nullptr;
  platform::nvml* nvml = nullptr;
  platform::programs* programs = nullptr;
  device_cache* cache = nullptr;
  std::optional<std::string> visible_devices = {};  // CUDA_VISIBLE_DEVICES
  std::string device_order = {};                    // CUDA_DEVICE_ORDER
};

/// Everybody that `machine` has, and this process's environment. The process's cache where it is
/// this machine with the topology kept for the process.
[[nodiscard]] device_sources sources_of(const platform::platform& machine, const topology& nodes);

/// The GPU functions in sysfs.
[[nodiscard]] std::shared_ptr<const gpu_functions> functions_of(const device_sources& sources);

/// NVML's GPUs; null where it cannot be asked, with the reason.
[[nodiscard]] std::shared_ptr<const nvml_devices> ask_nvml(const device_sources& sources,
                                                           std::string& reason);

/// The one at this address; null when there is none.
[[nodiscard]] const platform::nvml_device* find_nvml_device(const nvml_devices& devices,
                                                            const pci_address& address);

/// The GPUs that CUDA could show: NVML's, which are the container's own, else sysfs's.
/// NVML is left out, since it waits as long as the driver does, where `needs_ids` is false and
/// sysfs shows one GPU: there is nothing to choose.
[[nodiscard]] known_gpus known_gpus_of(const device_sources& sources, bool needs_ids);

[[nodiscard]] std::vector<host_device> host_devices_of(const device_sources& sources);

/// What this process sees: by CUDA's own word where it is initialised, else by its grammar.
[[nodiscard]] visible_list visible_list_of(const device_sources& sources);

}  // namespace numapool::device
