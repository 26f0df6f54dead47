// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sleeping until a word changes, by the kernel's own call: std::atomic::wait() gives the CPU away
// four times before it sleeps (libstdc++ 12), which a thread that is woken soon pays for.
// Facts: futex(2).

#include <atomic>

namespace numapool::base {

/// Sleeps while `word` is `value`; may return for no reason.
void futex_wait(const std::atomic<int>& word, int value) noexcept;
/// Wakes at most `count` that sleep there. Reads nothing: the word may be gone, and at worst
/// another's sleeper returns for no reason.
void futex_wake(const std::atomic<int>& word, int count) noexcept;

}  // namespace numapool::base
