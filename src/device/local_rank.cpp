// SPDX-License-Identifier: Apache-2.0
#include <climits>
#include <cstdlib>

#include <numapool/device.hpp>
#include <numapool/environment.hpp>

#include "base/text.hpp"

namespace numapool {

std::optional<int> local_rank() noexcept {
  for (const char* const variable : environment::local_ranks) {
    const char* const text = std::getenv(variable);
    const auto rank = text != nullptr ? base::parse_unsigned(base::trimmed(text)) : std::nullopt;
    if (rank && *rank <= INT_MAX) {
      return static_cast<int>(*rank);
    }
  }
  return std::nullopt;
}

}  // namespace numapool
