// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.hpp"

#include <algorithm>
#include <utility>

namespace numapool::cli {

namespace {

std::vector<std::string_view> lines_of(std::string_view cell) {
  std::vector<std::string_view> lines;
  for (;;) {
    const std::size_t end = cell.find('\n');
    lines.push_back(cell.substr(0, end));
    if (end == std::string_view::npos) {
      return lines;
    }
    cell.remove_prefix(end + 1);
  }
}

}  // namespace

void text_table::add_column(std::string heading, align side) {
  columns_.push_back({side});
  rows_.front().push_back(std::move(heading));
}

void text_table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string text_table::to_text() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (const std::string_view line : lines_of(row[i])) {
        widths[i] = std::max(widths[i], line.size());
      }
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string_view>> cells;
    std::size_t height = 0;
    for (const std::string& cell : row) {
      cells.push_back(lines_of(cell));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t k = 0; k < height; ++k) {
      std::string out;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string_view part = k < cells[i].size() ? cells[i][k] : std::string_view();
        const std::string fill(widths[i] - part.size(), ' ');
        out += i == 0 ? "" : "  ";
        out += columns_[i].side == align::right ? fill + std::string(part) : std::string(part) + fill;
      }
      out.erase(out.find_last_not_of(' ') + 1);
      text += out + "\n";
    }
  }
  return text;
}

std::vector<std::string> wrap_list(std::string_view list, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::size_t length = comma == std::string_view::npos ? list.size() : comma + 1;
    const std::string_view part = list.substr(0, length);
    if (!lines.back().empty() && lines.back().size() + part.size() > width) {
      lines.emplace_back();
    }
    lines.back() += part;
    list.remove_prefix(length);
  }
  return lines;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += text.empty() ? line : "\n" + line;
  }
  return text;
}

}  // namespace numapool::cli
