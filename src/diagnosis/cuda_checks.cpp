// SPDX-License-Identifier: Apache-2.0

// CUDA, its driver and NVML.

#include <cstdint>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "device/device_sources.hpp"
#include "diagnosis/checks.hpp"
#include "platform/cuda_api.hpp"
#include "platform/cuda_error.hpp"

namespace numapool::diagnosis {
namespace {

constexpr const char* driver_file = "/proc/driver/nvidia/version";

/// "535.129.03" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  ...": the first
/// field that starts with a digit and has a dot.
std::string driver_version(const std::string& text) {
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  for (const std::string_view field : base::fields_of(line)) {
    if (field.front() >= '0' && field.front() <= '9' && field.find('.') != std::string_view::npos) {
      return std::string(field);
    }
  }
  return {};
}

bool has_gpus(const examination& job) {
  return !device::read_gpu_functions(job.machine().files).gpus.empty();
}

check without_cuda(const examination& job, const platform::registrar_status& status) {
  const bool has_driver = !job.text(driver_file).empty();
  const check_status how_bad = has_gpus(job) ? check_status::fail : check_status::info;
  check found{"cuda", how_bad, status.reason, "", ""};
  if (status.error == platform::runtime_error(platform::cuda_error_insufficient_driver) &&
      has_driver) {
    found.meaning = "the driver is too old for this runtime: CUDA cannot pin, mlock does";
    found.fix = "update the driver, or use a runtime of its version (NUMAPOOL_CUDART names one)";
  } else if (!has_driver) {
    found.meaning = "no NVIDIA driver is loaded: buffers are locked by mlock";
    found.fix = "load the driver, or start the container with the GPUs (docker: --gpus all)";
  } else if (status.error == boost::system::errc::no_such_device) {
    found.meaning = "the driver shows this process no GPU: buffers are locked by mlock";
    found.fix = "look at CUDA_VISIBLE_DEVICES and at the GPUs that the container was given";
  } else {
    found.meaning = "CUDA cannot pin here: buffers are locked by mlock";
    found.fix = "put libcudart or libcuda where the loader finds it, or name it in NUMAPOOL_CUDART";
  }
  found.fix = how_bad == check_status::info ? "only for GPUs: " + found.fix : found.fix;
  return found;
}

}  // namespace

void check_cuda(examination& job) {
  if (!job.options().initialise_cuda) {
    job.add({"cuda", check_status::info, "not asked", "asking would initialise CUDA here", ""});
    return;
  }
  const platform::registrar_status status = job.machine().registrar.probe();
  if (status.route == platform::registrar_route::none) {
    job.add(without_cuda(job, status));
  } else if (status.route == platform::registrar_route::driver) {
    job.add({"cuda", check_status::info, status.reason,
             "buffers are pinned through the driver alone", ""});
  } else {
    job.add({"cuda", check_status::ok, status.reason, "buffers are pinned by CUDA", ""});
  }
}

void check_driver_version(examination& job) {
  const std::string version = driver_version(job.text(driver_file));
  if (version.empty()) {
    const bool is_missed = has_gpus(job);
    job.add({"nvidia_driver", is_missed ? check_status::fail : check_status::info, "none",
             "no NVIDIA driver is loaded", is_missed ? "load the driver on the host" : ""});
    return;
  }
  constexpr std::uint64_t first_with_limit = 580;
  const auto major = base::parse_unsigned(version.substr(0, version.find('.')));
  const bool is_limited = major && *major >= first_with_limit;
  job.add({"nvidia_driver", is_limited ? check_status::info : check_status::ok, version,
           is_limited ? "it refuses single registrations of 512 GiB (vllm#51080): none of ours is "
                        "longer than 64 GiB"
                      : "no limit of it is known that matters here",
           ""});
}

void check_nvml(examination& job) {
  std::string reason;
  const auto devices = device::ask_nvml(device::sources_of(job.machine(), job.nodes()), reason);
  if (devices != nullptr) {
    job.add({"nvml", check_status::ok,
             std::to_string(devices->size()) + (devices->size() == 1 ? " GPU" : " GPUs"),
             "GPU ids can be resolved", ""});
    return;
  }
  const bool is_missed = has_gpus(job);
  job.add({"nvml", is_missed ? check_status::warn : check_status::info, reason,
           "GPU- and MIG- ids cannot be resolved, nor a container's GPUs told from the host's",
           is_missed
               ? "put libnvidia-ml.so.1 where the loader finds it (NVIDIA_DRIVER_CAPABILITIES="
                 "utility), or name it in NUMAPOOL_NVML"
               : ""});
}

}  // namespace numapool::diagnosis
