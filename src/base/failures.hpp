// SPDX-License-Identifier: Apache-2.0
#pragma once

// Making and throwing failures, and errno captured next to the call that set it.

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include <boost/system/error_code.hpp>

#include <numapool/error.hpp>

namespace numapool::base {

/// errno as an error code. Call it directly after the failed system call.
[[nodiscard]] inline boost::system::error_code last_system_error() noexcept {
  return {errno, boost::system::system_category()};
}
[[nodiscard]] inline boost::system::error_code system_error(int number) noexcept {
  return {number, boost::system::system_category()};
}

/// A failure with no node and no bytes: parsing, reading.
[[nodiscard]] inline failure make_failure(errc code, operation step, std::string message,
                                          boost::system::error_code cause = {}) {
  return {code, step, node_id::unknown, 0, cause, std::move(message)};
}

[[noreturn]] inline void raise(failure why) { throw error(std::move(why)); }

/// Asio's pair of forms from one function that throws: runs it, and turns a numapool::error into `error` and
/// `otherwise`.
template <typename Function, typename Result>
Result catch_error(boost::system::error_code& error, Result otherwise, Function&& function) {
  try {
    error.clear();
    return std::forward<Function>(function)();
  } catch (const numapool::error& thrown) {
    error = thrown.code();
    return otherwise;
  }
}

}  // namespace numapool::base
