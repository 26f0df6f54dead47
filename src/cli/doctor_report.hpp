// SPDX-License-Identifier: Apache-2.0
#pragma once

// The checks of `numapool doctor` for people and for machines. Threads: free functions; safe.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <numapool/doctor.hpp>

namespace numapool::cli {

/// {"checks":[...]} as documented.
[[nodiscard]] nlohmann::ordered_json doctor_json(const std::vector<check>& checks);

/// One line a check: how it is, what was found, what that means and what to do; then a count.
[[nodiscard]] std::string doctor_text(const std::vector<check>& checks);

}  // namespace numapool::cli
