// SPDX-License-Identifier: Apache-2.0

// The one place that opens /sys and /proc.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <string_view>
#include <utility>

#include "base/failures.hpp"
#include "platform/platform.hpp"

namespace numapool::platform {
namespace {

constexpr std::size_t largest_text_bytes = std::size_t{64} << 20U;

class descriptor {
 public:
  descriptor() noexcept = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() {
    if (is_open()) {
      ::close(number_);
    }
  }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

descriptor open_at(int folder, const std::string& name, int flags) noexcept {
  int opened = -1;
  do {
    opened = ::openat(folder, name.c_str(), flags | O_CLOEXEC);
  } while (opened < 0 && errno == EINTR);
  return descriptor(opened);
}

/// Finds a file of a recorded machine as that machine would have: its root is `root`, which neither
/// ".." nor an absolute link leaves. A tree that somebody hands us may hold links to anywhere, and
/// FIFOs.
class rooted_search {
 public:
  explicit rooted_search(const std::string& root) {
    folders_.push_back(open_at(AT_FDCWD, root, O_PATH | O_DIRECTORY));
  }

  /// Open for reading; not open, with errno, where it is not there or neither file nor folder.
  descriptor find(const std::string& path) {
    if (!folders_.front().is_open()) {
      return {};
    }
    put_before_rest(path);
    while (!rest_.empty()) {
      const std::string name = std::move(rest_.front());
      rest_.pop_front();
      if (name == "..") {
        leave_folder();
      } else if (descriptor found; !step(name, found) || found.is_open()) {
        return found;
      }
    }
    return open_at(folders_.back().number(), ".", O_RDONLY | O_DIRECTORY);
  }

 private:
  static constexpr int links_max = 40;  // as the kernel's own search, path_resolution(7)

  /// False: an error. `found`, if it is open, is the end of the search.
  bool step(const std::string& name, descriptor& found) {
    const int here = folders_.back().number();
    descriptor next = open_at(here, name, O_PATH | O_NOFOLLOW);
    struct stat status {};
    if (!next.is_open() || ::fstat(next.number(), &status) != 0) {
      return false;
    }
    if (S_ISLNK(status.st_mode)) {
      return follow(next.number());
    }
    if (S_ISDIR(status.st_mode)) {
      folders_.push_back(std::move(next));
      return true;
    }
    if (!rest_.empty() || !S_ISREG(status.st_mode)) {
      errno = rest_.empty() ? EINVAL : ENOTDIR;
      return false;
    }
    // Without O_NONBLOCK a FIFO that took its place meanwhile would hold us.
    found = open_at(here, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return found.is_open();
  }

  bool follow(int link) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(link, "", target.data(), target.size());
    if (length < 0) {
      return false;
    }
    if (++links_ > links_max) {
      errno = ELOOP;
      return false;
    }
    const std::string text(target.data(), static_cast<std::size_t>(length));
    if (text.starts_with('/')) {
      folders_.resize(1);
    }
    put_before_rest(text);
    return true;
  }

  void leave_folder() {
    if (folders_.size() > 1) {
      folders_.pop_back();
    }
  }

  void put_before_rest(const std::string& path) {
    std::deque<std::string> names;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const std::string name = path.substr(begin, end - begin);
      if (!name.empty() && name != ".") {
        names.push_back(name);
      }
      begin = end + 1;
    }
    rest_.insert(rest_.begin(), names.begin(), names.end());
  }

  std::vector<descriptor> folders_;  // from the root to where the search is
  std::deque<std::string> rest_;
  int links_ = 0;
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
    const descriptor file = open(path);
    if (!file.is_open()) {
      return base::last_system_error();
    }
    std::string whole;
    if (const error_code failed = read_all(file.number(), whole)) {
      return failed;
    }
    text = std::move(whole);
    return {};
  }

  error_code list_directory(const std::string& path,
                            std::vector<std::string>& names) const override {
    descriptor opened = open(path);
    DIR* const folder = opened.is_open() ? ::fdopendir(opened.number()) : nullptr;
    if (folder == nullptr) {
      return base::last_system_error();
    }
    static_cast<void>(opened.release());  // the stream's now
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
  [[nodiscard]] descriptor open(const std::string& path) const {
    return root_.empty() ? open_at(AT_FDCWD, path, O_RDONLY) : rooted_search(root_).find(path);
  }

  std::string root_;
};

}  // namespace

std::unique_ptr<files> files_below(const std::string& root) {
  return std::make_unique<linux_files>(root);
}

}  // namespace numapool::platform
