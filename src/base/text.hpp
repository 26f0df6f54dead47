// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reading the small texts that kernels print: lines, fields and numbers. Views point into the text
// that they were given.

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace numapool::base {

/// Without blanks (space, tab, newline, carriage return and the zero byte, which recordings pad
/// with) at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// The lines, without their ends; no last empty line.
[[nodiscard]] std::vector<std::string_view> lines_of(std::string_view text);

/// The parts between runs of blanks; none of them is empty.
[[nodiscard]] std::vector<std::string_view> fields_of(std::string_view text);

/// The parts between separators; as many as separators plus one, and empty ones too.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// The whole of `text` as an unsigned number: digits only, no sign, no blanks; empty when it is not
/// one or too large.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text,
                                                          int base = 10) noexcept;

/// The number after `prefix` in a name such as "node12"; empty when the rest is not a number of 32
/// bits.
[[nodiscard]] std::optional<std::uint32_t> number_after(std::string_view prefix,
                                                        std::string_view name) noexcept;

/// "folder/name".
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);

/// In lower case, ASCII letters only: the locale has no say in what the kernel prints.
[[nodiscard]] std::string lower_case(std::string_view text);

/// In single quotes, cut when it is longer than a message should be, and with nothing unprintable
/// in it.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace numapool::base
