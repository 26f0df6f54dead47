// SPDX-License-Identifier: Apache-2.0
#include "least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace numapool::bench {
namespace {

using column = std::vector<double>;
using matrix = std::vector<column>;

double square_sum(const column& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

// One column a parameter.
matrix derivative_of(const residual_function& residuals, const column& at, const column& here) {
  constexpr double step = 1e-6;
  matrix columns;
  for (std::size_t i = 0; i < at.size(); ++i) {
    column moved = at;
    moved[i] += step;
    column slope = residuals(moved);
    for (std::size_t k = 0; k < slope.size(); ++k) {
      slope[k] = (slope[k] - here[k]) / step;
    }
    columns.push_back(std::move(slope));
  }
  return columns;
}

// Gauss's elimination with the largest pivot; `left` is square and has an inverse.
column solve(matrix left, column right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto largest = std::max_element(
        left.begin() + static_cast<std::ptrdiff_t>(i), left.end(),
        [i](const column& a, const column& b) { return std::abs(a[i]) < std::abs(b[i]); });
    std::swap(right[i], right[static_cast<std::size_t>(largest - left.begin())]);
    std::swap(left[i], *largest);
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = left[row][i] / left[i][i];
      for (std::size_t k = i; k < n; ++k) {
        left[row][k] -= factor * left[i][k];
      }
      right[row] -= factor * right[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) {
      right[i] -= left[i][k] * right[k];
    }
    right[i] /= left[i][i];
  }
  return right;
}

// Where the linear model, held back by `damping`, has its minimum.
column step_from(const matrix& derivative, const column& here, double damping) {
  const std::size_t n = derivative.size();
  matrix normal(n, column(n));
  column right(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      normal[i][k] = std::inner_product(derivative[i].begin(), derivative[i].end(),
                                        derivative[k].begin(), 0.0);
    }
    normal[i][i] += damping;
    right[i] = -std::inner_product(derivative[i].begin(), derivative[i].end(), here.begin(), 0.0);
  }
  return solve(std::move(normal), std::move(right));
}

}  // namespace

std::vector<double> fit_least_squares(const residual_function& residuals,
                                      std::vector<double> start) {
  constexpr int most_steps = 500;
  column at = std::move(start);
  column here = residuals(at);
  if (!std::isfinite(square_sum(here))) {
    throw std::invalid_argument("the fit starts where the model has no finite value");
  }
  double damping = 1e-2;
  for (int i = 0; i < most_steps; ++i) {
    const column step = step_from(derivative_of(residuals, at, here), here, damping);
    if (square_sum(step) < 1e-18) {
      return at;
    }
    column next = at;
    std::transform(next.begin(), next.end(), step.begin(), next.begin(), std::plus<>());
    column there = residuals(next);
    if (square_sum(there) < square_sum(here)) {
      at = std::move(next);
      here = std::move(there);
      damping = std::max(damping / 4, 1e-9);
    } else {
      damping *= 8;  // also where the step left the finite
    }
  }
  throw std::runtime_error("the fit found no minimum in 500 steps");
}

}  // namespace numapool::bench
