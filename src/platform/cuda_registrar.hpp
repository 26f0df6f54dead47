// SPDX-License-Identifier: Apache-2.0
#pragma once

// The registrar that asks CUDA: through the runtime where a usable one is found, else through the
// driver alone. registrar.hpp has the contract. Threads: safe to share.

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "platform/cuda_library.hpp"
#include "platform/registrar.hpp"

namespace numapool::platform {

class cuda_registrar final : public registrar {
 public:
  explicit cuda_registrar(cuda_search search) : libraries_{std::move(search)} {}

  registrar_status probe() noexcept override;
  boost::system::error_code pci_address(int device_ordinal, std::string& out) noexcept override;
  boost::system::error_code host_node(int device_ordinal, int& out) noexcept override;
  boost::system::error_code active_devices(std::vector<int>& out) noexcept override;
  boost::system::error_code initialized_devices(
      std::vector<initialized_device>& out) noexcept override;
  boost::system::error_code register_range(int device_ordinal, void* address,
                                           std::size_t size_bytes,
                                           void** device_pointer) noexcept override;
  unregister_result unregister_range(int device_ordinal, void* address) noexcept override;

 private:
  // What a call goes through: one of the two is set, or neither with the error that says why.
  struct chosen {
    const runtime_api* runtime = nullptr;
    const driver_api* driver = nullptr;
    boost::system::error_code error;
  };
  chosen choose() noexcept;
  registrar_status probe_libraries() NUMAPOOL_REQUIRES(mutex_);
  registrar_status probe_runtime(const runtime_library& library) NUMAPOOL_REQUIRES(mutex_);
  registrar_status probe_driver(const driver_library& library) NUMAPOOL_REQUIRES(mutex_);

  cuda_libraries libraries_;
  base::mutex mutex_;  // held while a route is looked for, and so for writing the two below; taken
                       // before libraries_'s
  // Set once, when a route first worked. Acquire and release: the reader calls through what the
  // writer bound.
  std::atomic<const runtime_api*> runtime_{nullptr};
  std::atomic<const driver_api*> driver_{nullptr};
};

}  // namespace numapool::platform
