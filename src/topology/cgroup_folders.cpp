// SPDX-License-Identifier: Apache-2.0
#include "topology/cgroup_folders.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/text.hpp"

namespace numapool::cgroup {
namespace {

/// A mounted cgroup hierarchy.
struct mount {
  cgroup::version version = version::v2;
  std::vector<std::string> options;  // v1: its controllers are among them
  std::string point;                 // where it is mounted
  std::string root;                  // which of its cgroups is mounted there; "/" for the whole
};

/// The cgroup of this process in one hierarchy, a line of /proc/self/cgroup.
struct membership {
  std::vector<std::string> controllers;  // none in version 2
  std::string path;
  bool in_any_version = false;  // nobody says which
};

std::vector<std::string> owned(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_octal(char digit) noexcept {
  return digit >= '0' && digit <= '7';
}

/// The kernel writes blanks and backslashes of mount points as "\040": three octal digits.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && is_octal(text[at + 1]) && is_octal(text[at + 2]) &&
        is_octal(text[at + 3])) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

/// A mount of `type` with its options, if it is one of cgroups.
std::optional<mount> as_cgroup_mount(std::string_view type, std::string_view options) {
  mount found;
  if (type == "cgroup2") {
    found.version = version::v2;
  } else if (type == "cgroup") {
    found.version = version::v1;
    found.options = owned(base::split(options, ','));
  } else if (type == "cpuset") {  // the controller's own file system, older than cgroups
    found.version = version::v1;
    found.options = {"cpuset"};
  } else {
    return std::nullopt;
  }
  return found;
}

/// /proc/self/mountinfo: id parent device root point options... - type source super-options.
std::optional<mount> from_mountinfo(std::string_view line) {
  const std::vector<std::string_view> fields = base::fields_of(line);
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() < 5 || fields.end() - dash < 4) {
    return std::nullopt;
  }
  std::optional<mount> found = as_cgroup_mount(dash[1], dash[3]);
  if (found) {
    found->root = unescaped(fields[3]);
    found->point = unescaped(fields[4]);
  }
  return found;
}

/// /proc/mounts: source point type options. It does not say which part is mounted.
std::optional<mount> from_mounts(std::string_view line) {
  const std::vector<std::string_view> fields = base::fields_of(line);
  if (fields.size() < 4) {
    return std::nullopt;
  }
  std::optional<mount> found = as_cgroup_mount(fields[2], fields[3]);
  if (found) {
    found->root.assign(1, '/');  // GCC 12 warns of an overlap in the assignment of a literal here
    found->point = unescaped(fields[1]);
  }
  return found;
}

std::vector<mount> read_mounts(const platform::files& files) {
  std::string text;
  auto* read_line = &from_mountinfo;
  if (files.read_text("/proc/self/mountinfo", text)) {
    read_line = &from_mounts;
    if (files.read_text("/proc/mounts", text) && files.read_text("/proc/self/mounts", text)) {
      return {};
    }
  }
  std::vector<mount> mounts;
  for (std::string_view line : base::lines_of(text)) {
    if (std::optional<mount> found = read_line(line)) {
      mounts.push_back(std::move(*found));
    }
  }
  return mounts;
}

/// The kernel marks a cgroup that was removed while the process stayed in it; its parents still
/// rule.
std::string_view without_mark(std::string_view path) {
  constexpr std::string_view mark = " (deleted)";
  return path.ends_with(mark) ? path.substr(0, path.size() - mark.size()) : path;
}

/// Lines "4:cpu,cpuacct:/a/b" and "0::/a/b". A path may hold colons itself.
std::vector<membership> read_memberships(const platform::files& files) {
  std::vector<membership> found;
  std::string text;
  if (files.read_text("/proc/self/cgroup", text)) {
    // Before cgroups, and in recordings without them, the cpuset alone is named.
    if (!files.read_text("/proc/self/cpuset", text)) {
      found.push_back({{"cpuset"}, std::string(base::trimmed(text)), true});
    }
    return found;
  }
  for (std::string_view line : base::lines_of(text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    found.push_back({controllers.empty() ? std::vector<std::string>{} : owned(base::split(controllers, ',')),
                     std::string(without_mark(line.substr(second + 1))), false});
  }
  return found;
}

/// The path of this process for the controller in a hierarchy of `version`.
std::optional<std::string> find_path(const std::vector<membership>& memberships, cgroup::version version,
                                     std::string_view controller) {
  for (const membership& member : memberships) {
    const bool is_unified = member.controllers.empty();
    const bool is_named = has(member.controllers, controller);
    if (member.in_any_version ? is_named : version == version::v2 ? is_unified : is_named) {
      return member.path;
    }
  }
  return std::nullopt;
}

/// `path` as seen below a mount of `root`, if it is there. A container often has only its own part
/// of the hierarchy mounted, while its path counts from the host's root.
std::optional<std::string> below_mount(std::string_view path, std::string_view root) {
  while (!root.empty() && root.back() == '/') {
    root.remove_suffix(1);
  }
  if (!path.starts_with(root)) {
    return std::nullopt;
  }
  path.remove_prefix(root.size());
  if (!path.empty() && path.front() != '/') {
    return std::nullopt;  // "/ab" is not below "/a"
  }
  return std::string(path);
}

/// The mount of the hierarchy that shows most of the way from its root to `path`; a hierarchy may
/// be mounted, whole or in part, in many places. Null when it is not mounted.
const mount* find_mount(const std::vector<mount>& mounts, version of, std::string_view controller,
                        std::string_view path) {
  const mount* best = nullptr;
  bool best_holds_path = false;
  for (const mount& candidate : mounts) {
    if (candidate.version != of || (of == version::v1 && !has(candidate.options, controller))) {
      continue;
    }
    const bool holds_path = below_mount(path, candidate.root).has_value();
    const bool shows_more = best == nullptr || (holds_path && !best_holds_path) ||
                            (holds_path && candidate.root.size() < best->root.size());
    if (shows_more) {
      best = &candidate;
      best_holds_path = holds_path;
    }
  }
  return best;
}

std::vector<std::string> folders_of(const mount& mounted, const std::string& path) {
  std::string point = mounted.point;
  while (!point.empty() && point.back() == '/') {
    point.pop_back();
  }
  std::string below = below_mount(path, mounted.root).value_or("");
  if (below.find("/..") != std::string::npos) {
    below.clear();  // outside of this cgroup namespace: the mount is the nearest that can be seen
  }
  std::vector<std::string> folders;
  while (!below.empty()) {
    if (below.back() != '/') {
      folders.push_back(point + below);
    }
    below.resize(below.rfind('/'));
  }
  folders.push_back(point.empty() ? "/" : point);
  return folders;
}

}  // namespace

std::vector<hierarchy> hierarchies_of(std::string_view controller, const platform::files& files) {
  const std::vector<membership> memberships = read_memberships(files);
  const std::vector<mount> mounts = read_mounts(files);
  std::vector<hierarchy> found;
  for (const version of : {version::v1, version::v2}) {
    const std::optional<std::string> path = find_path(memberships, of, controller);
    const mount* const mounted = path ? find_mount(mounts, of, controller, *path) : nullptr;
    if (mounted != nullptr) {
      found.push_back({of, folders_of(*mounted, *path)});
    }
  }
  return found;
}

}  // namespace numapool::cgroup
