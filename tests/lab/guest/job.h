// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the lab asks of this guest: the file /.lab/job, entries KEY=VALUE that each end in a zero
// byte. tests/lab/tool/payload.py writes it.

/// 0, or -1 where there is no job yet.
int load_job(void);
/// The first value of `key`, or null.
const char* job_value(const char* key);
/// The next value of `key`; `*position` is null at first. Null after the last.
const char* next_job_value(const char* key, const char** position);
/// All values of `key`, after those of `first` (null-terminated, may be null), null-terminated.
char** job_values(const char* key, char* const* first);
