// SPDX-License-Identifier: Apache-2.0
#pragma once

// What measure_ratio() found, as a table for people and as JSON for machines. Threads: safe.

#include <string>

#include "machine_watch.hpp"
#include "ratio_measurement.hpp"

namespace numapool::bench {

[[nodiscard]] std::string to_text(const ratio_result& result, const machine_facts& machine);
[[nodiscard]] std::string to_json(const ratio_result& result, const machine_facts& machine);

}  // namespace numapool::bench
