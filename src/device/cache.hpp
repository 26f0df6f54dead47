// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is kept of devices until refresh_devices(): answers, never failures; but that nvidia-smi
// failed is an answer about nvidia-smi. Threads: safe to share. Nobody is asked under the lock, so
// that a process forked meanwhile does not find it taken for seconds.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <numapool/device.hpp>

#include "base/mutex.hpp"
#include "device/pci_functions.hpp"
#include "platform/nvml.hpp"

namespace numapool::device {

struct found_node {
  node_id node;
  node_source source = node_source::unknown;
  std::string reason;  // why no better source answered
};

using nvml_devices = std::vector<platform::nvml_device>;

class device_cache {
 public:
  [[nodiscard]] std::optional<found_node> node_of(const pci_address& address) const;
  void keep(const pci_address& address, const found_node& found);

  [[nodiscard]] std::shared_ptr<const gpu_functions> functions() const;
  void keep(std::shared_ptr<const gpu_functions> functions);

  [[nodiscard]] std::shared_ptr<const nvml_devices> nvml() const;
  void keep(std::shared_ptr<const nvml_devices> devices);

  /// Why nvidia-smi is not asked about this id again; empty: it may be.
  [[nodiscard]] std::string nvidia_smi_failure(const std::string& id) const;
  /// An empty id: about any.
  void keep_nvidia_smi_failure(const std::string& id, const std::string& reason);

  void forget() noexcept;

 private:
  mutable base::mutex mutex_;
  std::map<pci_address, found_node> nodes_ NUMAPOOL_GUARDED_BY(mutex_);
  std::shared_ptr<const gpu_functions> functions_ NUMAPOOL_GUARDED_BY(mutex_);
  std::shared_ptr<const nvml_devices> nvml_ NUMAPOOL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> nvidia_smi_failures_ NUMAPOOL_GUARDED_BY(mutex_);
};

/// This machine's, for the process; never destroyed.
[[nodiscard]] device_cache& process_cache() noexcept;

}  // namespace numapool::device
