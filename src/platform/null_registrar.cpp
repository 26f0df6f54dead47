// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "platform/registrar.hpp"

namespace numapool::platform {
namespace {

boost::system::error_code no_cuda() noexcept {
  return make_error_code(boost::system::errc::not_supported);
}

}  // namespace

// Where nobody can be asked.
boost::system::error_code registrar::initialized_devices(
    std::vector<initialized_device>&) noexcept {
  return no_cuda();
}

registrar_status null_registrar::probe() noexcept {
  registrar_status status;
  status.error = no_cuda();
  try {
    status.reason = "no registration with CUDA was asked for";
  } catch (const std::exception&) {
    // The error alone says it.
  }
  return status;
}

boost::system::error_code null_registrar::pci_address(int, std::string&) noexcept {
  return no_cuda();
}
boost::system::error_code null_registrar::host_node(int, int&) noexcept {
  return no_cuda();
}
boost::system::error_code null_registrar::active_devices(std::vector<int>&) noexcept {
  return no_cuda();
}
boost::system::error_code null_registrar::register_range(int, void*, std::size_t, void**) noexcept {
  return no_cuda();
}
unregister_result null_registrar::unregister_range(int, void*) noexcept {
  return {unregister_outcome::failed, no_cuda()};
}

}  // namespace numapool::platform
