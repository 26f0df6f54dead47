// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a job's command finds around it. Each returns 0, or -1 after the reason was sent: a test
// must not run in surroundings other than those it asked for.

/// The clock, covered PCI devices, the cgroup, and the commands to run before.
int prepare_surroundings(char* const* variables);
/// In the child that becomes the command: the cgroup, limits, working folder, user, denied calls.
int enter_surroundings(void);
/// Writes `text` to `path`. 0, or -1 with errno.
int write_text(const char* path, const char* text);
