// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Takes from this process the capabilities and system calls that the job says, as container
/// runtimes do (tests/lab/tool/denied_calls.py knows which). 0, or -1 with errno.
int deny_calls(void);
