// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks for bugs: a violated one ends the process. For what the outside world decides, return an error instead.
//   NUMAPOOL_CHECK            on in every build.
//   NUMAPOOL_EXPENSIVE_CHECK  only where NUMAPOOL_EXPENSIVE_CHECKS is defined (dev, asan, tsan): walks whole
//   structures.

namespace numapool::base {
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;
}

#define NUMAPOOL_CHECK(expression)                      \
  (static_cast<bool>(expression) ? static_cast<void>(0) \
                                 : ::numapool::base::check_failed(#expression, __FILE__, __LINE__))

#ifdef NUMAPOOL_EXPENSIVE_CHECKS
#define NUMAPOOL_EXPENSIVE_CHECK(expression) NUMAPOOL_CHECK(expression)
#else
#define NUMAPOOL_EXPENSIVE_CHECK(expression) static_cast<void>(0)
#endif
