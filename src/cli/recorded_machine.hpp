// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <numapool/error.hpp>

namespace numapool::cli {

/// What `read` returns. Paths in a recorded machine read as its own, so that in an error the folder
/// has to be named here; an empty `root` is this machine.
template <typename Read>
auto read_recorded(const std::string& root, Read read) {
  try {
    return read();
  } catch (const error& unreadable) {
    if (root.empty()) {
      throw;
    }
    failure why = unreadable.why();
    why.message = "'" + root + "' is no recorded machine: " + why.message;
    throw error(std::move(why));
  }
}

}  // namespace numapool::cli
