// SPDX-License-Identifier: Apache-2.0

// The one place that opens /sys and /proc.

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/failures.hpp"
#include "platform/platform.hpp"

namespace numapool::platform {
namespace {

constexpr std::size_t largest_text_bytes = std::size_t{64} << 20U;

class open_file {
 public:
  explicit open_file(const std::string& path) noexcept {
    do {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    } while (descriptor_ < 0 && errno == EINTR);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (is_open()) {
      ::close(descriptor_);
    }
  }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Reads to the end: the kernel states no size for its files.
error_code read_all(int descriptor, std::string& text) {
  std::array<char, 16384>
      piece;  // larger than most of the kernel's files: one read, one to see the end
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return base::last_system_error();
    }
    if (got == 0) {
      return {};
    }
    if (text.size() + static_cast<std::size_t>(got) > largest_text_bytes) {
      return base::system_error(EFBIG);
    }
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

class linux_files final : public files {
 public:
  explicit linux_files(std::string root) : root_(std::move(root)) {}

  error_code read_text(const std::string& path, std::string& text) const override {
    const open_file file(root_ + path);
    if (!file.is_open()) {
      return base::last_system_error();
    }
    std::string whole;
    if (const error_code failed = read_all(file.descriptor(), whole)) {
      return failed;
    }
    text = std::move(whole);
    return {};
  }

  error_code list_directory(const std::string& path,
                            std::vector<std::string>& names) const override {
    DIR* const folder = ::opendir((root_ + path).c_str());
    if (folder == nullptr) {
      return base::last_system_error();
    }
    std::vector<std::string> found;
    errno = 0;
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        found.emplace_back(name);
      }
      errno = 0;
    }
    const error_code failed = errno != 0 ? base::last_system_error() : error_code{};
    ::closedir(folder);
    if (!failed) {
      names = std::move(found);
    }
    return failed;
  }

  [[nodiscard]] bool is_this_machine() const noexcept override { return root_.empty(); }

 private:
  std::string root_;
};

}  // namespace

std::unique_ptr<files> files_below(const std::string& root) {
  return std::make_unique<linux_files>(root);
}

}  // namespace numapool::platform
