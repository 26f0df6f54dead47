// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seam to NVML, NVIDIA's management library: which GPUs the driver knows, without initialising
// CUDA.

#include <string>
#include <vector>

#include <boost/system/error_code.hpp>

#include <numapool/node.hpp>

namespace numapool::platform {

struct nvml_device {
  std::string pci_address;  // as NVML spells it, "00000000:3B:00.0"
  std::string uuid;         // "GPU-..."; empty when it cannot be had
  std::string name;
  std::vector<std::string> mig_uuids;  // "MIG-...", in NVML's order; empty when MIG is off
  node_set memory_nodes;  // nvmlDeviceGetMemoryAffinity at node scope; empty: not supported, or it
                          // failed
  cpu_set cpus;           // nvmlDeviceGetCpuAffinity at node scope; likewise
};

class nvml {
 public:
  nvml() = default;
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;
  virtual ~nvml() = default;
  // Every GPU that NVML lists, in its order (PCI). Loads the library at the first call; a failure
  // is not kept. NVML is initialised for the length of the call alone (nvml_library.hpp says why).
  // One GPU that cannot be asked has empty fields. Errors: not_supported (generic) where there is
  // no library; else NVML's own code; `out` is then unchanged. Blocks: up to seconds where nobody
  // else holds the GPUs open, and for as long as the driver does: there is no time limit.
  virtual boost::system::error_code devices(std::vector<nvml_device>& out) noexcept = 0;
};

// The real one, by dlopen of libnvidia-ml.so.1 (NUMAPOOL_NVML names another); made on first use,
// never destroyed.
[[nodiscard]] nvml& process_nvml() noexcept;

}  // namespace numapool::platform
