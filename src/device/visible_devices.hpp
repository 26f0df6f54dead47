// SPDX-License-Identifier: Apache-2.0
#pragma once

// The grammar of CUDA_VISIBLE_DEVICES, and GPU ids: pure functions over text and what is known of
// the GPUs. Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; for MIG ids of
// drivers since r470, NVIDIA's Multi-Instance GPU user guide.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <numapool/device.hpp>

namespace numapool::device {

struct known_gpu {
  pci_address address;
  std::string uuid;                    // "GPU-..."; "" where it is not known
  std::vector<std::string> mig_uuids;  // "MIG-..."; empty: not cut into instances
  std::string model;                   // equal for GPUs that CUDA cannot tell apart; "" not known
};

/// The GPUs that CUDA could show this process.
struct known_gpus {
  std::vector<known_gpu> gpus;  // by PCI address
  bool is_complete = false;     // there are no others: an index beyond them is invalid
  bool has_ids = false;         // uuids and mig_uuids are there: an id not among them is invalid
  std::string without_ids;      // else why, for people
};

struct visible_list {
  std::vector<visible_device> devices;
  bool is_certain = true;  // no ordinal beyond them exists
  std::string end;         // why the list ends where it does, for people; "" where it just ends
};

/// What the process sees. `text` is the variable's, unset where it is not set; `device_order` the
/// text of CUDA_DEVICE_ORDER.
[[nodiscard]] visible_list read_visible_devices(std::optional<std::string_view> text,
                                                std::string_view device_order,
                                                const known_gpus& known);

/// Whether the text is meant to be an id: it starts with "GPU-" or "MIG-".
[[nodiscard]] bool is_gpu_id(std::string_view text) noexcept;

/// A GPU or MIG instance that an id names.
struct id_match {
  std::size_t gpu = 0;  // in known_gpus::gpus
  std::string uuid;     // in full
};

/// All whose id starts with `id`, one alone when an id is exactly that; the old form
/// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>" names the GPU with that uuid.
[[nodiscard]] std::vector<id_match> match_gpu_id(std::string_view id, const known_gpus& known);

}  // namespace numapool::device
