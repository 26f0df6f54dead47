// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a child of this process, which `become(variables)` makes of it, to its end. What it writes
/// is sent in frames of the given types, and so is what anybody writes to /.lab/host: a request to
/// the lab. Returns the status that waitpid gives.
int run_child(void (*become)(char* const* variables), char* const* variables, char output_frame,
              char error_frame);
