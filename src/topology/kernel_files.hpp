// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel's small files as values. A file that is not there is an answer (empty); one that
// cannot be read or makes no sense adds a warning and is empty too: one bad file spoils one fact.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <numapool/node.hpp>

#include "platform/platform.hpp"

namespace numapool {

class kernel_files {
 public:
  /// Both are used for as long as this lives.
  kernel_files(const platform::files& files, std::vector<std::string>& warnings) noexcept
      : files_(files), warnings_(warnings) {}

  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& path) const;
  [[nodiscard]] std::optional<cpu_set> cpu_list(const std::string& path) const;
  [[nodiscard]] std::optional<cpu_set> cpu_mask(const std::string& path) const;
  [[nodiscard]] std::optional<node_set> node_list(const std::string& path) const;

  /// The names in the folder, sorted; empty also when the folder is not there.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& path) const;
  /// The numbers N of the entries `prefix`N in the folder, ascending.
  [[nodiscard]] std::vector<std::uint32_t> numbers_in(const std::string& path, std::string_view prefix) const;

  /// The rest of the first line that starts with `key`, trimmed: `key` with its colon, "MemTotal:".
  [[nodiscard]] static std::optional<std::string_view> value_of(std::string_view text, std::string_view key);

  /// One sentence about a fact that could not be read or contradicts another.
  void warn(std::string sentence) const { warnings_.push_back(std::move(sentence)); }

 private:
  template <typename Set, typename Parse>
  std::optional<Set> parsed(const std::string& path, Parse parse) const;

  const platform::files& files_;
  std::vector<std::string>& warnings_;
};

}  // namespace numapool
