// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include <numapool/environment.hpp>

namespace numapool {
namespace {

// Without allocation: these functions are noexcept.
bool equals_ignoring_case(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) noexcept {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return equals_ignoring_case(text, word); });
}

}  // namespace

bool is_numa_enabled() noexcept {
  const char* const gate = std::getenv(environment::enable_numa);
  // The original knows only these two here: "yes" and "on" leave it off.
  return gate != nullptr && is_one_of(gate, {"1", "true"}) && !is_numa_disabled();
}

bool is_numa_disabled() noexcept {
  return is_environment_truthy(environment::disable_numa);
}

bool is_environment_truthy(const char* variable) noexcept {
  const char* const value = std::getenv(variable);
  return value != nullptr && parse_bool(value).value_or(false);
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  if (is_one_of(text, {"1", "true", "on", "yes"})) {
    return true;
  }
  if (is_one_of(text, {"0", "false", "off", "no"})) {
    return false;
  }
  return std::nullopt;
}

}  // namespace numapool
