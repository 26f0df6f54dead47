// SPDX-License-Identifier: Apache-2.0
#pragma once

// Aligned columns for people. Threads: distinct objects are safe.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace numapool::cli {

enum class align { left, right };

/// Rows of cells, aligned in columns two spaces apart. A cell may have several lines, separated by
/// newlines.
class text_table {
 public:
  void add_column(std::string heading, align side);
  /// One cell a column.
  void add_row(std::vector<std::string> cells);
  /// The headings and rows, each line ended by a newline and without trailing spaces.
  [[nodiscard]] std::string to_text() const;

 private:
  struct column {
    align side;
  };
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_{1};  // the first holds the headings
};

/// `list` broken after commas into lines of at most `width` characters, where its parts allow.
[[nodiscard]] std::vector<std::string> wrap_list(std::string_view list, std::size_t width);

/// The lines, a newline between two.
[[nodiscard]] std::string join_lines(const std::vector<std::string>& lines);

}  // namespace numapool::cli
