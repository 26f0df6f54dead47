// SPDX-License-Identifier: Apache-2.0
#pragma once

// A device as people name it on the command line: an ordinal, a "GPU-" or "MIG-" id or unique
// prefix of one, a PCI address, or "local-rank". Threads: safe.

#include <string>
#include <string_view>

#include <numapool/buffer.hpp>

namespace numapool::cli {

/// The text, if it is one of those; throws usage_error with the ways to write it otherwise. Asks
/// nobody whether there is such a device.
[[nodiscard]] std::string read_device(std::string_view text);

/// Makes `what` a request for that device, or for its node alone where this process does not see it
/// or nothing says under which ordinal. Throws numapool::error: errc::unknown_device, and
/// errc::unknown_node when it is not seen and its node is not known.
void ask_for_device(const std::string& device, request& what);

}  // namespace numapool::cli
