// SPDX-License-Identifier: Apache-2.0
#include "topology/kernel_files.hpp"

#include <algorithm>
#include <cerrno>

#include <numapool/error.hpp>

#include "base/text.hpp"

namespace numapool {
namespace {

/// Whether the answer is that there is no such thing, which is a fact and no failure.
bool is_absent(const boost::system::error_code& error) noexcept {
  return error.value() == ENOENT || error.value() == ENOTDIR;
}

}  // namespace

std::optional<std::string> kernel_files::text(const std::string& path) const {
  std::string whole;
  const boost::system::error_code failed = files_.read_text(path, whole);
  if (!failed) {
    return whole;
  }
  if (!is_absent(failed)) {
    warn(path + " could not be read: " + failed.message() + ".");
  }
  return std::nullopt;
}

std::optional<std::uint64_t> kernel_files::number(const std::string& path) const {
  const std::optional<std::string> whole = text(path);
  if (!whole) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> value = base::parse_unsigned(base::trimmed(*whole));
  if (!value) {
    warn(path + " does not hold a number: " + base::quoted(base::trimmed(*whole)) + ".");
  }
  return value;
}

template <typename Set, typename Parse>
std::optional<Set> kernel_files::parsed(const std::string& path, Parse parse) const {
  const std::optional<std::string> whole = text(path);
  if (!whole) {
    return std::nullopt;
  }
  try {
    return parse(std::string_view(*whole));
  } catch (const error& wrong) {
    warn(path + " makes no sense: " + wrong.what() + ".");
    return std::nullopt;
  }
}

std::optional<cpu_set> kernel_files::cpu_list(const std::string& path) const {
  return parsed<cpu_set>(path, [](std::string_view text) { return cpu_set::parse_list(text); });
}

std::optional<cpu_set> kernel_files::cpu_mask(const std::string& path) const {
  return parsed<cpu_set>(path, [](std::string_view text) { return cpu_set::parse_mask(text); });
}

std::optional<node_set> kernel_files::node_list(const std::string& path) const {
  return parsed<node_set>(path, [](std::string_view text) { return node_set::parse_list(text); });
}

std::vector<std::string> kernel_files::names_in(const std::string& path) const {
  std::vector<std::string> names;
  const boost::system::error_code failed = files_.list_directory(path, names);
  if (failed && !is_absent(failed)) {
    warn(path + " could not be listed: " + failed.message() + ".");
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::uint32_t> kernel_files::numbers_in(const std::string& path, std::string_view prefix) const {
  std::vector<std::uint32_t> numbers;
  for (const std::string& name : names_in(path)) {
    const std::optional<std::uint32_t> number = base::number_after(prefix, name);
    if (number && *number <= node_set::id_max) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::optional<std::string_view> kernel_files::value_of(std::string_view text, std::string_view key) {
  for (std::string_view line : base::lines_of(text)) {
    if (line.starts_with(key)) {
      return base::trimmed(line.substr(key.size()));
    }
  }
  return std::nullopt;
}

}  // namespace numapool
