// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace numapool::base {

/// One turn of a wait that spins: lets the other thread of the core run meanwhile.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores
#endif
}

}  // namespace numapool::base
