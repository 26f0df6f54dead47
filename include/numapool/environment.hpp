// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every environment variable that numapool reads, and the gate. Each function reads the environment
// at each call, as dynamo's does. Threads: safe as long as nobody changes the environment meanwhile
// (getenv(3)).

#include <array>
#include <optional>
#include <string_view>

namespace numapool {

namespace environment {
inline constexpr const char* enable_numa = "DYN_KVBM_ENABLE_NUMA";  ///< the gate
inline constexpr const char* disable_numa =
    "DYN_MEMORY_DISABLE_NUMA";  ///< its successor: truthy wins over the gate
inline constexpr const char* cudart =
    "NUMAPOOL_CUDART";  ///< path or soname of the CUDA runtime library to load
inline constexpr const char* nvml =
    "NUMAPOOL_NVML";  ///< path or soname of the NVML library to load
inline constexpr const char* visible_devices =
    "CUDA_VISIBLE_DEVICES";  ///< CUDA's own: which GPUs it shows
inline constexpr const char* device_order =
    "CUDA_DEVICE_ORDER";  ///< CUDA's own: in which order it counts them
/// The rank of a process on its host, as torchrun, Slurm, Open MPI, Intel MPI, Hydra, PALS and Flux
/// tell it.
inline constexpr std::array<const char*, 7> local_ranks{
    "LOCAL_RANK",     "SLURM_LOCALID",     "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
    "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID"};
/// NeMo-RL's: the file that maps GPUs to CPUs, and what turns its binding off.
inline constexpr const char* nrl_affinity_file = "NRL_GPU_CPU_AFFINITY_FILE";
inline constexpr const char* nrl_disable_binding = "NRL_DISABLE_NUMA_BINDING";
inline constexpr const char* nrl_disable_membind = "NRL_DISABLE_NUMA_MEMBIND";

/// All of them but the ranks.
inline constexpr std::array<const char*, 9> all{enable_numa,
                                                disable_numa,
                                                cudart,
                                                nvml,
                                                visible_devices,
                                                device_order,
                                                nrl_affinity_file,
                                                nrl_disable_binding,
                                                nrl_disable_membind};
}  // namespace environment

/// The gate: whether pinned storage is routed through the node workers. On when
/// DYN_KVBM_ENABLE_NUMA is "1" or "true" in any case, unless DYN_MEMORY_DISABLE_NUMA is truthy. Off
/// by default. Only `make_pinned_storage` asks it.
[[nodiscard]] bool is_numa_enabled() noexcept;

/// Whether DYN_MEMORY_DISABLE_NUMA is truthy.
[[nodiscard]] bool is_numa_disabled() noexcept;

/// Whether the variable is set to 1, true, on or yes, in any case.
[[nodiscard]] bool is_environment_truthy(const char* variable) noexcept;

/// 1/true/on/yes and 0/false/off/no, in any case; empty for anything else.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text) noexcept;

}  // namespace numapool
