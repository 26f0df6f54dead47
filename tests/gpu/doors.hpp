// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two ways into the driver, so that the same question can be put to both, and the memory to
// ask with. Threads: a door is used by the thread that entered it.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {

inline std::size_t page_bytes() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// Resident pages of our own, given back with the process.
class host_pages {
 public:
  explicit host_pages(const lab& asked, std::size_t pages, int protection = PROT_READ | PROT_WRITE)
      : size_{pages * page_bytes()} {
    void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED) {
      asked.skip("there is no memory for it");
    }
    begin_ = static_cast<char*>(mapped);
    if (protection != (PROT_READ | PROT_WRITE)) {
      ::mprotect(begin_, size_, protection);
    }
  }
  char* page(std::size_t index) const { return begin_ + index * page_bytes(); }
  std::size_t size() const { return size_; }
  void unmap() const { ::munmap(begin_, size_); }

 private:
  char* begin_;
  std::size_t size_;
};

// The driver's needs a context: entering makes the primary one of device 0 current.
class door {
 public:
  enum class side { runtime, driver };

  door(const lab& asked, side which) : cuda_{asked.cuda}, which_{which} {
    if (which_ == side::driver) {
      asked.must(cuda_.driver.init(0), "cuInit");
      asked.must(cuda_.driver.primary_context_retain(&context_, 0), "cuDevicePrimaryCtxRetain");
      asked.must(cuda_.driver.context_push(context_), "cuCtxPushCurrent");
    }
  }
  int enroll(void* address, std::size_t bytes,
             unsigned int flags = platform::cuda_register_portable) const {
    return which_ == side::runtime ? cuda_.runtime.host_register(address, bytes, flags)
                                   : cuda_.driver.host_register(address, bytes, flags);
  }
  int remove(void* address) const {
    return which_ == side::runtime ? cuda_.runtime.host_unregister(address)
                                   : cuda_.driver.host_unregister(address);
  }
  int device_pointer(void* address, unsigned long long& pointer) const {
    if (which_ == side::driver) {
      return cuda_.driver.host_get_device_pointer(&pointer, address, 0);
    }
    void* found = nullptr;
    const int status = cuda_.runtime.host_get_device_pointer(&found, address, 0);
    pointer = reinterpret_cast<std::size_t>(found);
    return status;
  }
  platform::driver_context context() const { return context_; }

 private:
  const libraries& cuda_;
  side which_;
  platform::driver_context context_ = nullptr;
};

// For questions that are about the driver behind both: through the runtime where there is one.
inline door any_door(const lab& asked) {
  return door{asked, asked.cuda.has_runtime() ? door::side::runtime : door::side::driver};
}

}  // namespace numapool::gpu_probe
