// SPDX-License-Identifier: Apache-2.0
//
// A process of its own for laws about processes. Prints what happened as "key=value" lines.
//   cuda_scenario find [LIBRARY]     which runtime is found, once LIBRARY is loaded
//   cuda_scenario probe              what the process-wide registrar says
//   cuda_scenario initialized        what it says of devices before anybody has loaded a driver
//   cuda_scenario release-at-exit    a range is registered, and given back by a static destructor

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "platform/cuda_library.hpp"
#include "platform/registrar.hpp"

namespace {

using namespace numapool::platform;

constexpr std::size_t range_bytes = 65536;

// Made before CUDA is initialised, so destroyed after CUDA's exit handler has run.
struct holder {
  void* address = nullptr;
  ~holder() {
    if (address == nullptr) {
      return;
    }
    const unregister_result result = process_registrar().unregister_range(0, address);
    std::printf("outcome=%d\nerror=%d\n", static_cast<int>(result.outcome), result.error.value());
    ::munmap(address, range_bytes);
  }
} held;

int find(const char* loaded_before) {
  if (loaded_before != nullptr && ::dlopen(loaded_before, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  const auto found = find_runtime(cuda_search::from_environment());
  std::printf("reason=%s\n", found.reason.c_str());
  if (found.library == nullptr) {
    return 0;
  }
  std::printf("path=%s\nsource=%d\nversion=%d\n", found.library->path.c_str(),
              static_cast<int>(found.library->source), found.library->version);
  return 0;
}

int probe() {
  const registrar_status status = process_registrar().probe();
  std::printf("route=%d\ndevices=%d\nerror=%d\nreason=%s\n", static_cast<int>(status.route),
              status.device_count, status.error.value(), status.reason.c_str());
  return 0;
}

int initialized() {
  std::vector<initialized_device> devices;
  const auto error = process_registrar().initialized_devices(devices);
  const bool driver_loaded = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr;
  std::printf("error=%d\ndriver_loaded=%d\n", error.value(), driver_loaded ? 1 : 0);
  return 0;
}

int release_at_exit() {
  void* address =
      ::mmap(nullptr, range_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* device_pointer = nullptr;
  const auto error = process_registrar().register_range(0, address, range_bytes, &device_pointer);
  std::printf("registered=%d\nroute=%d\n", error.failed() ? 0 : 1,
              static_cast<int>(process_registrar().probe().route));
  held.address = address;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string scenario = count > 1 ? arguments[1] : "";
  if (scenario == "find") {
    return find(count > 2 ? arguments[2] : nullptr);
  }
  if (scenario == "probe") {
    return probe();
  }
  if (scenario == "initialized") {
    return initialized();
  }
  if (scenario == "release-at-exit") {
    return release_at_exit();
  }
  std::printf("unknown scenario\n");
  return 2;
}
