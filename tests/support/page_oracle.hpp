// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the pages of a range are, by three witnesses that share no code with the library:
// move_pages(2), get_mempolicy(2) with MPOL_F_NODE | MPOL_F_ADDR, and /proc/PID/numa_maps read by
// another process. Each is asked of the kernel anew, page by page. A witness that may not speak
// says why; those that speak must agree.

#include <cstddef>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace numapool::test {

/// Base pages by node id; `not_resident` counts those that have no memory.
struct page_census {
  std::map<int, std::size_t> by_node;
  std::size_t not_resident = 0;

  [[nodiscard]] std::size_t pages() const;
  friend bool operator==(const page_census&, const page_census&) = default;
};
std::ostream& operator<<(std::ostream& stream, const page_census& census);

struct testimony {
  const char* witness = "";
  std::optional<page_census> census;  ///< empty: it could not speak
  std::string reason;                 ///< then why
};

/// The three, in that order. The range must be whole base pages, and for numa_maps whole mappings.
[[nodiscard]] std::vector<testimony> ask_witnesses(const void* data, std::size_t size_bytes);

/// What the witnesses agree on. A test failure (GoogleTest's) where two disagree, or where fewer
/// than `at_least` speak.
[[nodiscard]] page_census census_of(const void* data, std::size_t size_bytes,
                                    std::size_t at_least = 3);

}  // namespace numapool::test
