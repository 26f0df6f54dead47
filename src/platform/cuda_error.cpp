// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_error.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "platform/cuda_api.hpp"

namespace numapool::platform {
namespace {

// The codes that loading, counting, registering and unregistering can meet. Where one of the two libraries has no such
// code its name is null.
struct known_code {
  int value;
  const char* runtime_name;
  const char* driver_name;
  const char* text;
};

constexpr std::array known_codes = {
    known_code{0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    known_code{1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "an argument was refused"},
    known_code{2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "memory or another resource ran out"},
    known_code{3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED",
               "CUDA is not initialised here (as in a child forked after its parent used CUDA)"},
    known_code{4, "cudaErrorCudartUnloading", "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    known_code{34, "cudaErrorStubLibrary", "CUDA_ERROR_STUB_LIBRARY", "this is a link-time stub and no driver"},
    known_code{35, "cudaErrorInsufficientDriver", nullptr, "no driver, or one too old for this runtime"},
    known_code{36, "cudaErrorCallRequiresNewerDriver", nullptr, "the call needs a newer driver"},
    known_code{46, "cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE",
               "the device is busy or in exclusive use"},
    known_code{49, "cudaErrorIncompatibleDriverContext", nullptr,
               "the current driver context does not fit this runtime"},
    known_code{100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA device"},
    known_code{101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "no such device ordinal"},
    known_code{201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "no valid context is current"},
    known_code{214, "cudaErrorECCUncorrectable", "CUDA_ERROR_ECC_UNCORRECTABLE",
               "uncorrectable memory error on the device"},
    known_code{304, "cudaErrorOperatingSystem", "CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
    known_code{400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    known_code{600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "work is still running"},
    known_code{700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
               "earlier device work touched an invalid address; the context is lost"},
    known_code{709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context has been destroyed"},
    known_code{712, "cudaErrorHostMemoryAlreadyRegistered", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
               "a page of the range is registered already"},
    known_code{713, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
               "no registration starts at this address"},
    known_code{719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED",
               "earlier device work failed; the context is lost"},
    known_code{800, "cudaErrorNotPermitted", "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
    known_code{801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "not supported on this system or device"},
    known_code{802, "cudaErrorSystemNotReady", "CUDA_ERROR_SYSTEM_NOT_READY",
               "the system is not ready (the fabric manager may not be running)"},
    known_code{803, "cudaErrorSystemDriverMismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
               "kernel driver and driver library are of different versions"},
    known_code{804, "cudaErrorCompatNotSupportedOnDevice", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
               "forward compatibility is not supported on this device"},
    known_code{999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown internal error"},
};

const known_code* find_code(int value) noexcept {
  for (const known_code& code : known_codes) {
    if (code.value == value) {
      return &code;
    }
  }
  return nullptr;
}

// GCC warns of Boost's base, whose destructor is protected where it is not virtual; nobody deletes through it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class cuda_category final : public boost::system::error_category {
 public:
  cuda_category(const char* name, const char* known_code::*code_name) noexcept : name_{name}, code_name_{code_name} {}

  const char* name() const noexcept override { return name_; }

  std::string message(int value) const override {
    const known_code* code = find_code(value);
    if (code == nullptr || code->*code_name_ == nullptr) {
      return "CUDA error " + std::to_string(value);
    }
    return std::string{code->*code_name_} + " (" + std::to_string(value) + "): " + code->text;
  }

  boost::system::error_condition default_error_condition(int value) const noexcept override {
    namespace errc = boost::system::errc;
    switch (value) {
      case cuda_error_invalid_value:
        return errc::make_error_condition(errc::invalid_argument);
      case cuda_error_out_of_memory:
        return errc::make_error_condition(errc::not_enough_memory);
      case cuda_error_no_device:
      case cuda_error_invalid_device:
        return errc::make_error_condition(errc::no_such_device);
      case cuda_error_not_permitted:
        return errc::make_error_condition(errc::operation_not_permitted);
      case cuda_error_not_supported:
        return errc::make_error_condition(errc::not_supported);
      default:
        return {value, *this};
    }
  }

 private:
  const char* name_;
  const char* known_code::*code_name_;
};
#pragma GCC diagnostic pop

}  // namespace

// A handle that a static destructor releases may still hold an error code: nothing here must need destroying.
static_assert(std::is_trivially_destructible_v<cuda_category>);

const boost::system::error_category& cuda_runtime_category() noexcept {
  static const cuda_category category{"cuda-runtime", &known_code::runtime_name};
  return category;
}

const boost::system::error_category& cuda_driver_category() noexcept {
  static const cuda_category category{"cuda-driver", &known_code::driver_name};
  return category;
}

}  // namespace numapool::platform
