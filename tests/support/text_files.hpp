// SPDX-License-Identifier: Apache-2.0
#pragma once

// A machine's files made of texts in memory, for cases too small for a tree in tests/machines.

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/failures.hpp"
#include "platform/platform.hpp"

namespace numapool::tests {

class text_files final : public platform::files {
 public:
  text_files() = default;
  explicit text_files(std::initializer_list<std::pair<const std::string, std::string>> texts) : texts_(texts) {}

  /// Sets the text of a file; its folders are there with it.
  void put(const std::string& path, std::string text) { texts_[path] = std::move(text); }
  /// Reading the file fails with this errno from now on.
  void fail(const std::string& path, int number) { failures_[path] = number; }
  void remove(const std::string& path) { texts_.erase(path); }

  platform::error_code read_text(const std::string& path, std::string& text) const override {
    if (const auto failure = failures_.find(path); failure != failures_.end()) {
      return base::system_error(failure->second);
    }
    const auto found = texts_.find(path);
    if (found == texts_.end()) {
      return base::system_error(ENOENT);
    }
    text = found->second;
    return {};
  }

  platform::error_code list_directory(const std::string& path, std::vector<std::string>& names) const override {
    const std::string prefix = path + "/";
    std::set<std::string> found;
    for (const auto& [name, text] : texts_) {
      if (name.starts_with(prefix)) {
        const std::string rest = name.substr(prefix.size());
        found.insert(rest.substr(0, rest.find('/')));
      }
    }
    if (found.empty()) {
      return base::system_error(ENOENT);
    }
    names.assign(found.begin(), found.end());
    return {};
  }

  [[nodiscard]] bool is_this_machine() const noexcept override { return false; }

 private:
  std::map<std::string, std::string> texts_;
  std::map<std::string, int> failures_;
};

}  // namespace numapool::tests
