// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much the kernel's tasks wait for memory: pressure stall information. Facts: the kernel's
// Documentation/accounting/psi.rst and admin-guide/cgroup-v2.rst.

#include <optional>
#include <string_view>

#include "platform/platform.hpp"

namespace numapool::blocks {

/// `some avg10`: of the last ten seconds, the percentage in which at least one task waited. The
/// larger of the machine's and that of this process's own cgroup, whose limit may bind where the
/// machine has plenty; empty where neither can be read. Cost: some 50 us.
[[nodiscard]] std::optional<double> read_memory_pressure(const platform::files& files);

/// That number in a text such as "some avg10=1.53 avg60=0.87 avg300=0.20 total=4711\nfull ...".
[[nodiscard]] std::optional<double> some_average_10(std::string_view text) noexcept;

}  // namespace numapool::blocks
