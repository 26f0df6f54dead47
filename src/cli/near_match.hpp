// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a misspelt word was meant to be.

#include <string>
#include <string_view>
#include <vector>

namespace numapool::cli {

/// The one of `known` that `word` becomes with the fewest letters put in, left out, exchanged or
/// swapped with their neighbour: at most two, and fewer than half of the word. The first of those
/// equally near; "" when none is.
[[nodiscard]] std::string near_match(std::string_view word, const std::vector<std::string>& known);

}  // namespace numapool::cli
