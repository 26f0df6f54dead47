// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's answers as error codes: one category for the runtime's numbers, one for the driver's. Names and texts are
// built in, so a message can be read when the library has gone. Threads: safe.

#include <boost/system/error_code.hpp>

namespace numapool::platform {

// Named "cuda-runtime" and "cuda-driver". A message is the code's name, its number and a short text, as in
// "cudaErrorNoDevice (100): no CUDA device". Equivalent to the generic conditions where one says the same: out of
// memory, invalid argument, not supported, operation not permitted, no such device.
[[nodiscard]] const boost::system::error_category& cuda_runtime_category() noexcept;
[[nodiscard]] const boost::system::error_category& cuda_driver_category() noexcept;

[[nodiscard]] inline boost::system::error_code runtime_error(int status) noexcept {
  return {status, cuda_runtime_category()};
}
[[nodiscard]] inline boost::system::error_code driver_error(int status) noexcept {
  return {status, cuda_driver_category()};
}

}  // namespace numapool::platform
