// SPDX-License-Identifier: Apache-2.0
#include "device/cache.hpp"

#include <utility>

namespace numapool::device {

std::optional<found_node> device_cache::node_of(const pci_address& address) const {
  const base::lock_guard lock(mutex_);
  const auto found = nodes_.find(address);
  return found == nodes_.end() ? std::nullopt : std::optional<found_node>(found->second);
}

void device_cache::keep(const pci_address& address, const found_node& found) {
  const base::lock_guard lock(mutex_);
  nodes_.insert_or_assign(address, found);
}

std::shared_ptr<const gpu_functions> device_cache::functions() const {
  const base::lock_guard lock(mutex_);
  return functions_;
}

void device_cache::keep(std::shared_ptr<const gpu_functions> functions) {
  const base::lock_guard lock(mutex_);
  functions_ = std::move(functions);
}

std::shared_ptr<const nvml_devices> device_cache::nvml() const {
  const base::lock_guard lock(mutex_);
  return nvml_;
}

void device_cache::keep(std::shared_ptr<const nvml_devices> devices) {
  const base::lock_guard lock(mutex_);
  nvml_ = std::move(devices);
}

std::string device_cache::nvidia_smi_failure(const std::string& id) const {
  const base::lock_guard lock(mutex_);
  for (const std::string& key : {std::string(), id}) {
    if (const auto found = nvidia_smi_failures_.find(key); found != nvidia_smi_failures_.end()) {
      return found->second;
    }
  }
  return {};
}

void device_cache::keep_nvidia_smi_failure(const std::string& id, const std::string& reason) {
  const base::lock_guard lock(mutex_);
  nvidia_smi_failures_.insert_or_assign(id, reason);
}

void device_cache::forget() noexcept {
  const base::lock_guard lock(mutex_);
  nodes_.clear();
  functions_.reset();
  nvml_.reset();
  nvidia_smi_failures_.clear();
}

namespace {

/// In place, so that making it cannot fail; its destructor does nothing.
union immortal_cache {
  immortal_cache() noexcept : cache() {}
  ~immortal_cache() {}
  device_cache cache;
};

}  // namespace

device_cache& process_cache() noexcept {
  static immortal_cache instance;
  return instance.cache;
}

}  // namespace numapool::device
namespace numapool {

void refresh_devices() noexcept {
  device::process_cache().forget();
}

}  // namespace numapool
