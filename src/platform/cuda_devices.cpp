// SPDX-License-Identifier: Apache-2.0

// The devices of a driver that somebody has initialised. Nothing here initialises one.

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "platform/cuda_error.hpp"
#include "platform/cuda_registrar.hpp"

namespace numapool::platform {
namespace {

constexpr int pci_text_size = 32;  // "00000000:00:00.0" and room

driver_status read_device(const driver_api& cuda, int ordinal, initialized_device& read) {
  driver_device device = 0;
  std::array<char, pci_text_size> text{};
  driver_status status = cuda.device_get(&device, ordinal);
  if (status == cuda_success) {
    status = cuda.device_get_pci_bus_id(text.data(), pci_text_size, device);
  }
  if (status != cuda_success) {
    return status;
  }
  read.pci_address = base::lower_case(text.data());
  int node = -1;
  // Drivers before 12.2 refuse the question: then the node is unknown, and the address an answer.
  if (cuda.device_get_attribute(&node, cuda_attribute_host_numa_id, device) == cuda_success) {
    read.host_node = node;
  }
  return cuda_success;
}

// Counting is the first call that an uninitialised driver refuses.
driver_status read_devices(const driver_api& cuda, std::vector<initialized_device>& devices) {
  int count = 0;
  driver_status status = cuda.device_get_count(&count);
  for (int ordinal = 0; status == cuda_success && ordinal < count; ++ordinal) {
    status = read_device(cuda, ordinal, devices.emplace_back());
  }
  return status;
}

}  // namespace

boost::system::error_code cuda_registrar::initialized_devices(
    std::vector<initialized_device>& out) noexcept {
  try {
    const driver_library* const library = libraries_.driver_in_process();
    if (library == nullptr) {
      return make_error_code(boost::system::errc::not_supported);
    }
    std::vector<initialized_device> devices;
    if (const driver_status status = read_devices(library->call, devices); status != cuda_success) {
      return driver_error(status);
    }
    out.swap(devices);
    return {};
  } catch (const std::exception&) {
    return make_error_code(boost::system::errc::not_enough_memory);
  }
}

}  // namespace numapool::platform
