// SPDX-License-Identifier: Apache-2.0
#include "cli/quantity.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>

#include "cli/errors.hpp"

namespace numapool::cli {

namespace {

constexpr std::string_view unit_letters = "kmgtpe";

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// A decimal number as typed: "12", "1.5". Neither part has anything but digits.
struct decimal {
  std::string_view whole;
  std::string_view fraction;
};

// Cuts a number off the front of `text`; empty unless there is a digit on each side of the point.
std::optional<decimal> take_decimal(std::string_view& text) {
  const auto digits = [](std::string_view from) {
    const auto* end = std::find_if_not(from.begin(), from.end(), is_digit);
    return from.substr(0, static_cast<std::size_t>(end - from.begin()));
  };
  decimal number;
  number.whole = digits(text);
  if (number.whole.empty()) {
    return std::nullopt;
  }
  text.remove_prefix(number.whole.size());
  if (!text.empty() && text.front() == '.') {
    number.fraction = digits(text.substr(1));
    if (number.fraction.empty()) {
      return std::nullopt;
    }
    text.remove_prefix(1 + number.fraction.size());
  }
  return number;
}

enum class scaling { exact, inexact, overflow };
struct scaled {
  scaling how = scaling::exact;
  std::uint64_t value = 0;
};

// number x unit in whole numbers only. Requires: unit <= 2^60, so that a step of the fraction fits
// 64 bits.
scaled scale(const decimal& number, std::uint64_t unit) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t whole = 0;
  for (const char c : number.whole) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (whole > (most - digit) / 10) {
      return {scaling::overflow, 0};
    }
    whole = whole * 10 + digit;
  }
  // From the last digit: once a step leaves a remainder, no later one can remove it.
  std::uint64_t part = 0;
  for (auto c = number.fraction.rbegin(); c != number.fraction.rend(); ++c) {
    part += static_cast<std::uint64_t>(*c - '0') * unit;
    if (part % 10 != 0) {
      return {scaling::inexact, 0};
    }
    part /= 10;
  }
  if (whole > (most - part) / unit) {
    return {scaling::overflow, 0};
  }
  return {scaling::exact, whole * unit + part};
}

std::uint64_t power(std::uint64_t base, std::size_t exponent) {
  std::uint64_t result = 1;
  for (std::size_t i = 0; i < exponent; ++i) {
    result *= base;
  }
  return result;
}

[[noreturn]] void refuse_ambiguous(std::string_view text, std::string_view number, char letter) {
  const std::string big(1, static_cast<char>(letter - 'a' + 'A'));
  throw usage_error(quoted(text) + " can be read in two ways; write " + std::string(number) + big +
                    "iB for units of 1024 or " + std::string(number) + big + "B for units of 1000");
}

// The bytes that `suffix` stands for; empty when it is no unit.
std::optional<std::uint64_t> unit_of(std::string_view text, std::string_view suffix) {
  std::string unit(suffix);
  std::transform(unit.begin(), unit.end(), unit.begin(), lower);
  if (unit.empty() || unit == "b") {
    return 1;
  }
  const std::size_t exponent = unit_letters.find(unit.front()) + 1;
  if (exponent == 0) {
    return std::nullopt;
  }
  const std::string_view rest = std::string_view(unit).substr(1);
  if (rest.empty()) {
    refuse_ambiguous(text, text.substr(0, text.size() - suffix.size()), unit.front());
  }
  if (rest == "ib" || rest == "i") {
    return power(1024, exponent);
  }
  if (rest == "b") {
    return power(1000, exponent);
  }
  return std::nullopt;
}

}  // namespace

std::size_t parse_size(std::string_view text) {
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  std::string_view rest = text;
  const std::optional<decimal> number = take_decimal(rest);
  const std::optional<std::uint64_t> unit = number ? unit_of(text, rest) : std::nullopt;
  if (!unit) {
    throw usage_error(quoted(text) + " is not a size; write bytes, or a number with a unit as in " +
                      "4096, 64KiB, 1.5GiB or 2GB");
  }
  const scaled bytes = scale(*number, *unit);
  if (bytes.how == scaling::inexact) {
    throw usage_error(quoted(text) + " is not a whole number of bytes; write it with a smaller unit");
  }
  if (bytes.how == scaling::overflow) {
    throw usage_error(quoted(text) + " is more than 64 bits can count; write less than 16EiB");
  }
  return bytes.value;
}

std::chrono::milliseconds parse_seconds(std::string_view text) {
  constexpr std::uint64_t most = 1'000'000'000'000;  // 10^9 s, over thirty years
  std::string_view rest = text;
  const std::optional<decimal> number = take_decimal(rest);
  if (!number || !rest.empty()) {
    throw usage_error(quoted(text) + " is not a time; write seconds, as in 20 or 0.5");
  }
  const scaled milliseconds = scale(*number, 1000);
  if (milliseconds.how == scaling::inexact) {
    throw usage_error(quoted(text) + " is finer than a millisecond; write at most three decimals");
  }
  if (milliseconds.how == scaling::overflow || milliseconds.value > most) {
    throw usage_error(quoted(text) + " is too long; write at most 1000000000 seconds");
  }
  return std::chrono::milliseconds(milliseconds.value);
}

std::uint64_t parse_whole(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::string_view rest = text;
  const std::optional<decimal> number = take_decimal(rest);
  if (number && rest.empty() && number->fraction.empty()) {
    const scaled whole = scale(*number, 1);
    if (whole.how == scaling::exact && whole.value >= least && whole.value <= most) {
      return whole.value;
    }
  }
  throw usage_error(quoted(text) + " does not do; write a whole number from " + std::to_string(least) + " to " +
                    std::to_string(most));
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  std::uint64_t size = 1;
  // 1023.95 rounds to 1024.0, which reads better as 1.0 of the next unit.
  while (unit + 1 < units.size() && static_cast<double>(bytes) >= 1023.95 * static_cast<double>(size)) {
    size *= 1024;
    ++unit;
  }
  const bool whole = bytes % size == 0;
  const double value = static_cast<double>(bytes) / static_cast<double>(size);
  return format_fixed(value, whole ? 0 : 1) + " " + units[unit];
}

std::string format_address(std::uintptr_t address) {
  std::array<char, 2 + 2 * sizeof address + 1> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(address));
  return text.data();
}

std::string format_fixed(double value, int decimals) {
  std::array<char, 400> text{};  // the longest double has 309 digits before the point
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), std::min(static_cast<std::size_t>(std::max(length, 0)), text.size() - 1)};
}

}  // namespace numapool::cli
