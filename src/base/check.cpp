// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace numapool::base {

// The one place that prints: the process is ending, and without the line nobody would know why.
void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "numapool: bug: %s does not hold (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace numapool::base
