// SPDX-License-Identifier: Apache-2.0
#pragma once

// The CUDA libraries as the probe opens them: numapool's own declarations, and a few functions more
// that it never calls. Threads: opened once, then read.

#include <cstddef>
#include <string>

#include "platform/cuda_api.hpp"
#include "platform/nvml_api.hpp"

namespace numapool::gpu_probe {

// Null where the library has none; an experiment that wants one then asks nothing.
struct more_runtime_api {
  int (*malloc)(void** pointer, std::size_t size_bytes) = nullptr;
  int (*memcpy)(void* to, const void* from, std::size_t size_bytes, int kind) = nullptr;
  int (*memcpy_async)(void* to, const void* from, std::size_t size_bytes, int kind,
                      void* stream) = nullptr;
  int (*device_synchronize)() = nullptr;
  int (*device_reset)() = nullptr;
};

struct library_names {
  std::string runtime;  // a file; empty: search; "none": do without
  std::string driver;
  std::string nvml;
};

struct libraries {
  std::string runtime_file;  // empty: there is none; `reasons` says why
  std::string driver_file;
  std::string nvml_file;
  std::string reasons;
  platform::runtime_api runtime;
  platform::driver_api driver;
  platform::nvml_api nvml;
  more_runtime_api more;

  bool has_runtime() const { return !runtime_file.empty(); }
  bool has_driver() const { return !driver_file.empty(); }
  bool has_nvml() const { return !nvml_file.empty(); }
};

libraries open_libraries(const library_names& names);

// "712 already registered"; the number alone where we have no words, and "0".
std::string text_of(int code);
std::string nvml_text_of(int code);

}  // namespace numapool::gpu_probe
