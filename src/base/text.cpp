// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <charconv>
#include <cstddef>
#include <system_error>

namespace numapool::base {
namespace {

bool is_blank(char letter) noexcept {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r' || letter == '\0';
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) {
    lines.pop_back();
  }
  return lines;
}

std::vector<std::string_view> fields_of(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t start = 0; start < text.size();) {
    if (is_blank(text[start])) {
      ++start;
      continue;
    }
    std::size_t end = start;
    while (end < text.size() && !is_blank(text[end])) {
      ++end;
    }
    fields.push_back(text.substr(start, end - start));
    start = end;
  }
  return fields;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text, int base) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || error != std::errc{} || stopped != end) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::uint32_t> number_after(std::string_view prefix, std::string_view name) noexcept {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> number = parse_unsigned(name.substr(prefix.size()));
  if (!number || *number > UINT32_MAX) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  path += '/';
  path += name;
  return path;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') {
      letter = static_cast<char>(letter - 'A' + 'a');
    }
  }
  return lower;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown = "'";
  for (char letter : text.substr(0, longest)) {
    shown += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return shown + (text.size() > longest ? "...'" : "'");
}

}  // namespace numapool::base
