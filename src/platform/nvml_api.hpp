// SPDX-License-Identifier: Apache-2.0
#pragma once

// The few NVML functions that numapool calls, declared by us: building needs no header of NVIDIA's.
// Names, numbers and layouts are those of the NVML API reference. Threads: values; safe.

#include <cstddef>

namespace numapool::platform {

// nvmlReturn_t is an int-sized enumeration. Ours is a plain int: a newer library may answer with a
// number that no list of ours has.
using nvml_status = int;

// Answers that the code decides on; all others are only passed on.
inline constexpr int nvml_success = 0;
inline constexpr int nvml_error_uninitialized = 1;
inline constexpr int nvml_error_invalid_argument = 2;
inline constexpr int nvml_error_not_supported = 3;
inline constexpr int nvml_error_no_permission = 4;
inline constexpr int nvml_error_driver_not_loaded = 9;
inline constexpr int nvml_error_timeout = 10;
inline constexpr int nvml_error_function_not_found = 13;
inline constexpr int nvml_error_memory = 20;
inline constexpr int nvml_error_gpu_not_found = 28;

// Flag of nvmlInitWithFlags: a machine without a GPU is no error.
inline constexpr unsigned int nvml_init_no_gpus = 1;
// Scope of an affinity query: the GPU's NUMA node, not its socket.
inline constexpr unsigned int nvml_scope_node = 0;
// Answer of nvmlDeviceGetMigMode.
inline constexpr unsigned int nvml_mig_enabled = 1;

// Room for the longest texts of any version (the _v2 sizes), their zero included.
inline constexpr std::size_t nvml_uuid_bytes = 96;
inline constexpr std::size_t nvml_name_bytes = 96;

struct nvml_pci_info {     // nvmlPciInfo_t as nvmlDeviceGetPciInfo_v3 fills it
  char bus_id_legacy[16];  // domain of four digits
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];  // domain of eight digits
};
static_assert(sizeof(nvml_pci_info) == 68 && offsetof(nvml_pci_info, bus_id) == 36);

using nvml_handle = struct nvml_handle_object*;  // an opaque nvmlDevice_t

struct nvml_api {
  nvml_status (*init)() = nullptr;
  nvml_status (*shutdown)() = nullptr;
  nvml_status (*device_count)(unsigned int* count) = nullptr;
  nvml_status (*device_handle)(unsigned int index, nvml_handle* device) = nullptr;
  nvml_status (*pci_info)(nvml_handle device, nvml_pci_info* info) = nullptr;
  nvml_status (*uuid)(nvml_handle device, char* text, unsigned int size) = nullptr;
  // Null where the library is too old for them.
  nvml_status (*init_with_flags)(unsigned int flags) = nullptr;
  nvml_status (*name)(nvml_handle device, char* text, unsigned int size) = nullptr;
  nvml_status (*mig_mode)(nvml_handle device, unsigned int* now, unsigned int* later) = nullptr;
  nvml_status (*mig_count_max)(nvml_handle device, unsigned int* count) = nullptr;
  nvml_status (*mig_handle)(nvml_handle device, unsigned int index, nvml_handle* mig) = nullptr;
  // Masks of unsigned long, 64 ids to a word; `words` is how many may be written.
  nvml_status (*memory_affinity)(nvml_handle device, unsigned int words, unsigned long* nodes,
                                 unsigned int scope) = nullptr;
  nvml_status (*cpu_affinity_in_scope)(nvml_handle device, unsigned int words, unsigned long* cpus,
                                       unsigned int scope) = nullptr;
  nvml_status (*cpu_affinity)(nvml_handle device, unsigned int words,
                              unsigned long* cpus) = nullptr;
};

// Shows `visit` each function's symbol, the member that holds it, and whether we cannot do without.
// The one list of symbols.
template <class Visitor>
void visit_symbols(nvml_api& api, Visitor&& visit) {
  visit("nvmlInit_v2", api.init, true);
  visit("nvmlShutdown", api.shutdown, true);
  visit("nvmlDeviceGetCount_v2", api.device_count, true);
  visit("nvmlDeviceGetHandleByIndex_v2", api.device_handle, true);
  visit("nvmlDeviceGetPciInfo_v3", api.pci_info, true);
  visit("nvmlDeviceGetUUID", api.uuid, true);
  visit("nvmlInitWithFlags", api.init_with_flags, false);
  visit("nvmlDeviceGetName", api.name, false);
  visit("nvmlDeviceGetMigMode", api.mig_mode, false);
  visit("nvmlDeviceGetMaxMigDeviceCount", api.mig_count_max, false);
  visit("nvmlDeviceGetMigDeviceHandleByIndex", api.mig_handle, false);
  visit("nvmlDeviceGetMemoryAffinity", api.memory_affinity, false);
  visit("nvmlDeviceGetCpuAffinityWithinScope", api.cpu_affinity_in_scope, false);
  visit("nvmlDeviceGetCpuAffinity", api.cpu_affinity, false);
}

}  // namespace numapool::platform
