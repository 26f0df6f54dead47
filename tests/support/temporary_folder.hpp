// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of its own for a test, removed with everything in it.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace numapool::tests {

class temporary_folder {
 public:
  temporary_folder() : path_(std::filesystem::temp_directory_path() / "numapool-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("no temporary folder at " + path_);
    }
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace numapool::tests
