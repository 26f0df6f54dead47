// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVML's answers as error codes. Names and texts are built in, so a message needs no library.
// Threads: safe.

#include <boost/system/error_code.hpp>

namespace numapool::platform {

// Named "nvml". A message is the code's name, its number and a short text, as in
// "NVML_ERROR_DRIVER_NOT_LOADED (9): the driver is not loaded". Equivalent to the generic
// conditions where one says the same: not supported, permission denied, no such device, and so on.
[[nodiscard]] const boost::system::error_category& nvml_category() noexcept;

[[nodiscard]] inline boost::system::error_code nvml_error(int status) noexcept {
  return {status, nvml_category()};
}

}  // namespace numapool::platform
