// SPDX-License-Identifier: Apache-2.0
#include "gpu/libraries.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <type_traits>
#include <vector>

namespace numapool::gpu_probe {
namespace {

template <class Function>
void bind(void* handle, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, symbol));
}

std::string file_of(void* handle, const std::string& name) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || *map->l_name == '\0') {
    return name;
  }
  return map->l_name;
}

// Opens the first of `names`; never closed. Sets `file`.
void* open_first(const std::vector<std::string>& names, std::string& file, std::string& reasons) {
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      file = file_of(handle, name);
      return handle;
    }
    const char* why = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string{why == nullptr ? name : why};
  }
  return nullptr;
}

template <class Api>
bool bind_all(void* handle, Api& api, std::string& reasons) {
  bool is_complete = true;
  platform::visit_symbols(api, [&](const char* symbol, auto& function, bool is_required = true) {
    bind(handle, symbol, function);
    if (function == nullptr && is_required) {
      reasons += (reasons.empty() ? "" : "; ") + std::string{"there is no "} + symbol;
      is_complete = false;
    }
  });
  return is_complete;
}

template <class Api>
void* open_api(const std::vector<std::string>& names, std::string& file, Api& api,
               std::string& reasons) {
  void* handle = open_first(names, file, reasons);
  if (handle != nullptr && !bind_all(handle, api, reasons)) {
    file.clear();
    return nullptr;
  }
  return handle;
}

std::vector<std::string> candidates(const std::string& chosen, std::vector<std::string> usual) {
  if (chosen == "none") {
    return {};
  }
  return chosen.empty() ? std::move(usual) : std::vector<std::string>{chosen};
}

std::vector<std::string> usual_runtimes() {
  std::vector<std::string> names{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  const char* home = std::getenv("CUDA_HOME");
  const std::string folder = home == nullptr ? "/usr/local/cuda" : home;
  names.push_back(folder + "/lib64/libcudart.so");
  return names;
}

}  // namespace

libraries open_libraries(const library_names& names) {
  libraries opened;
  // The driver first: where it is named, the runtime then finds that one by its soname.
  open_api(candidates(names.driver, {"libcuda.so.1"}), opened.driver_file, opened.driver,
           opened.reasons);
  void* runtime = open_api(candidates(names.runtime, usual_runtimes()), opened.runtime_file,
                           opened.runtime, opened.reasons);
  if (runtime != nullptr) {
    bind(runtime, "cudaMalloc", opened.more.malloc);
    bind(runtime, "cudaMemcpy", opened.more.memcpy);
    bind(runtime, "cudaMemcpyAsync", opened.more.memcpy_async);
    bind(runtime, "cudaDeviceSynchronize", opened.more.device_synchronize);
    bind(runtime, "cudaDeviceReset", opened.more.device_reset);
  }
  open_api(candidates(names.nvml, {"libnvidia-ml.so.1"}), opened.nvml_file, opened.nvml,
           opened.reasons);
  return opened;
}

std::string text_of(int code) {
  struct named {
    int code;
    const char* name;
  };
  constexpr named known[] = {{1, "invalid value"},
                             {2, "out of memory"},
                             {3, "not initialized"},
                             {4, "unloading"},
                             {35, "insufficient driver"},
                             {46, "devices unavailable"},
                             {100, "no device"},
                             {101, "invalid device"},
                             {201, "invalid context"},
                             {304, "operating system"},
                             {400, "invalid handle"},
                             {700, "illegal address"},
                             {708, "primary context active"},
                             {709, "context destroyed"},
                             {712, "already registered"},
                             {713, "not registered"},
                             {800, "not permitted"},
                             {801, "not supported"},
                             {999, "unknown"}};
  for (const named& one : known) {
    if (one.code == code) {
      return std::to_string(code) + " " + one.name;
    }
  }
  return std::to_string(code);
}

std::string nvml_text_of(int code) {
  switch (code) {
    case platform::nvml_error_uninitialized:
      return "1 uninitialized";
    case platform::nvml_error_invalid_argument:
      return "2 invalid argument";
    case platform::nvml_error_not_supported:
      return "3 not supported";
    case platform::nvml_error_no_permission:
      return "4 no permission";
    case 6:
      return "6 not found";
    case 7:
      return "7 insufficient size";
    case platform::nvml_error_driver_not_loaded:
      return "9 driver not loaded";
    default:
      return std::to_string(code);
  }
}

}  // namespace numapool::gpu_probe
