// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fits of a few parameters. Threads: safe.

#include <functional>
#include <vector>

namespace numapool::bench {

using residual_function = std::function<std::vector<double>(const std::vector<double>&)>;

/// The parameters near `start` where the sum of squares of `residuals` is least, by Levenberg and
/// Marquardt's method with a numeric derivative. As many residuals at each call, and all finite
/// near the path. Throws std::invalid_argument when they are not finite at `start`, and
/// std::runtime_error when no minimum is found in 500 steps. Cost: a call of `residuals` for each
/// parameter and step, and the cube of the parameters' number.
[[nodiscard]] std::vector<double> fit_least_squares(const residual_function& residuals,
                                                    std::vector<double> start);

}  // namespace numapool::bench
