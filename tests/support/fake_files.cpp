// SPDX-License-Identifier: Apache-2.0
#include "support/fake_files.hpp"

#include <cerrno>
#include <utility>

#include "base/failures.hpp"

namespace numapool::test {

void fake_files::set(const std::string& path, std::string text) {
  set_live(path, [text = std::move(text)] { return text; });
}

void fake_files::set_live(const std::string& path, writer text) {
  const std::lock_guard lock(mutex_);
  removed_.erase(path);
  texts_.insert_or_assign(path, std::move(text));
}

void fake_files::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  texts_.erase(path);
  removed_.insert(path);
}

platform::error_code fake_files::read_text(const std::string& path, std::string& text) const {
  writer made;
  {
    const std::lock_guard lock(mutex_);
    if (removed_.contains(path)) {
      return base::system_error(ENOENT);
    }
    if (const auto found = texts_.find(path); found != texts_.end()) {
      made = found->second;
    }
  }
  if (made) {
    text = made();  // without the lock: it asks the other fakes
    return {};
  }
  return below_ ? below_->read_text(path, text) : base::system_error(ENOENT);
}

platform::error_code fake_files::list_directory(const std::string& path, std::vector<std::string>& names) const {
  std::set<std::string> found;
  std::vector<std::string> listed;
  const bool is_below = below_ && !below_->list_directory(path, listed);
  found.insert(listed.begin(), listed.end());
  const std::string prefix = path + "/";
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = texts_.lower_bound(prefix); entry != texts_.end() && entry->first.starts_with(prefix); ++entry) {
      const std::string rest = entry->first.substr(prefix.size());
      found.insert(rest.substr(0, rest.find('/')));
    }
  }
  if (found.empty() && !is_below) {
    return base::system_error(ENOENT);
  }
  names.assign(found.begin(), found.end());
  return {};
}

}  // namespace numapool::test
