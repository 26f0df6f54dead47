// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Does the whole job: surroundings, command, its output and exit status, fetched files, the log.
void run_job(void);
