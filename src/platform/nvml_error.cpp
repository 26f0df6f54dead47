// SPDX-License-Identifier: Apache-2.0
#include "platform/nvml_error.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "platform/nvml_api.hpp"

namespace numapool::platform {
namespace {

struct known_code {
  int value;
  const char* name;
  const char* text;
};

// What loading, initialising and asking can meet.
constexpr std::array known_codes = {
    known_code{0, "NVML_SUCCESS", "no error"},
    known_code{1, "NVML_ERROR_UNINITIALIZED", "NVML is not initialised"},
    known_code{2, "NVML_ERROR_INVALID_ARGUMENT", "an argument was refused"},
    known_code{3, "NVML_ERROR_NOT_SUPPORTED", "not supported on this device or system"},
    known_code{4, "NVML_ERROR_NO_PERMISSION", "this user may not talk to the driver or device"},
    known_code{6, "NVML_ERROR_NOT_FOUND", "no such object"},
    known_code{7, "NVML_ERROR_INSUFFICIENT_SIZE", "the answer is larger than the room given"},
    known_code{8, "NVML_ERROR_INSUFFICIENT_POWER", "a GPU's power cables are not connected"},
    known_code{9, "NVML_ERROR_DRIVER_NOT_LOADED", "the driver is not loaded"},
    known_code{10, "NVML_ERROR_TIMEOUT", "the driver did not answer in time"},
    known_code{11, "NVML_ERROR_IRQ_ISSUE", "the kernel has trouble with a GPU's interrupts"},
    known_code{12, "NVML_ERROR_LIBRARY_NOT_FOUND", "a library that NVML needs is missing"},
    known_code{13, "NVML_ERROR_FUNCTION_NOT_FOUND", "the library lacks a function"},
    known_code{14, "NVML_ERROR_CORRUPTED_INFOROM", "a GPU's stored identity is damaged"},
    known_code{15, "NVML_ERROR_GPU_IS_LOST", "a GPU has fallen off the bus"},
    known_code{16, "NVML_ERROR_RESET_REQUIRED", "a GPU must be reset first"},
    known_code{17, "NVML_ERROR_OPERATING_SYSTEM", "the system or a cgroup blocks the device files"},
    known_code{18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
               "kernel driver and library are of different versions"},
    known_code{19, "NVML_ERROR_IN_USE", "a GPU is in use"},
    known_code{20, "NVML_ERROR_MEMORY", "memory ran out"},
    known_code{21, "NVML_ERROR_NO_DATA", "no data"},
    known_code{23, "NVML_ERROR_INSUFFICIENT_RESOURCES", "a resource other than memory ran out"},
    known_code{25, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "a structure's version was refused"},
    known_code{26, "NVML_ERROR_DEPRECATED", "the function is no longer offered"},
    known_code{27, "NVML_ERROR_NOT_READY", "the system is not ready"},
    known_code{28, "NVML_ERROR_GPU_NOT_FOUND", "no GPU"},
    known_code{29, "NVML_ERROR_INVALID_STATE", "not possible in the present state"},
    known_code{999, "NVML_ERROR_UNKNOWN", "unknown internal error of the driver"},
};

// GCC warns of Boost's base, whose destructor is protected where it is not virtual; ours is never
// destroyed at all.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class nvml_codes final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "nvml"; }

  std::string message(int value) const override {
    for (const known_code& code : known_codes) {
      if (code.value == value) {
        return std::string{code.name} + " (" + std::to_string(value) + "): " + code.text;
      }
    }
    return "NVML error " + std::to_string(value);
  }

  boost::system::error_condition default_error_condition(int value) const noexcept override {
    namespace errc = boost::system::errc;
    switch (value) {
      case nvml_error_invalid_argument:
        return errc::make_error_condition(errc::invalid_argument);
      case nvml_error_not_supported:
        return errc::make_error_condition(errc::not_supported);
      case nvml_error_no_permission:
        return errc::make_error_condition(errc::permission_denied);
      case nvml_error_driver_not_loaded:
      case nvml_error_gpu_not_found:
        return errc::make_error_condition(errc::no_such_device);
      case nvml_error_timeout:
        return errc::make_error_condition(errc::timed_out);
      case nvml_error_memory:
        return errc::make_error_condition(errc::not_enough_memory);
      default:
        return {value, *this};
    }
  }
};
#pragma GCC diagnostic pop

}  // namespace

// A static destructor may still hold an error code: nothing here must need destroying.
static_assert(std::is_trivially_destructible_v<nvml_codes>);

const boost::system::error_category& nvml_category() noexcept {
  static const nvml_codes category;
  return category;
}

}  // namespace numapool::platform
