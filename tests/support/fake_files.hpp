// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernel files that exist in memory alone, over a recorded machine or over nothing. Threads: safe to share.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "platform/platform.hpp"

namespace numapool::test {

class fake_files final : public platform::files {
 public:
  using writer = std::function<std::string()>;

  /// `below` may be null: nothing but what is set exists then.
  explicit fake_files(std::unique_ptr<platform::files> below) : below_(std::move(below)) {}

  /// The file's text from now on.
  void set(const std::string& path, std::string text);
  /// A text that is made anew at each reading: free memory, numa_maps.
  void set_live(const std::string& path, writer text);
  /// The file is gone (ENOENT), whatever is below.
  void remove(const std::string& path);

  platform::error_code read_text(const std::string& path, std::string& text) const override;
  platform::error_code list_directory(const std::string& path, std::vector<std::string>& names) const override;
  [[nodiscard]] bool is_this_machine() const noexcept override { return true; }

 private:
  const std::unique_ptr<platform::files> below_;
  mutable std::mutex mutex_;
  std::map<std::string, writer> texts_;
  std::set<std::string> removed_;
};

}  // namespace numapool::test
