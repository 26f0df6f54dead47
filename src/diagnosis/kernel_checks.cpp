// SPDX-License-Identifier: Apache-2.0

// The kernel's version, for what it cannot do.

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "diagnosis/checks.hpp"

namespace numapool::diagnosis {
namespace {

using version = std::pair<int, int>;

std::optional<version> version_of(const std::string& release) {
  version found;
  const char* const end = release.data() + release.size();
  const auto major = std::from_chars(release.data(), end, found.first);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
    return std::nullopt;
  }
  const auto minor = std::from_chars(major.ptr + 1, end, found.second);
  return minor.ec == std::errc() ? std::optional<version>(found) : std::nullopt;
}

}  // namespace

void check_kernel(examination& job) {
  const std::string release = job.text("/proc/sys/kernel/osrelease");
  const auto kernel = version_of(release);
  if (!kernel) {
    job.add({"kernel", check_status::info, "unknown", "its version cannot be read", ""});
  } else if (*kernel >= version(6, 11) && *kernel <= version(6, 13)) {
    job.add({"kernel", check_status::warn, release,
             "it fails to pin more than 2 GiB at once (NV-Kernels#108): buffers are registered in "
             "ranges of 2 GiB, across which a copy can be refused",
             "run Linux 6.14 or later, or at most 6.10"});
  } else if (*kernel < version(5, 14)) {
    job.add({"kernel", check_status::warn, release,
             "it has no MADV_POPULATE_WRITE: pages are touched one by one, and reserved huge pages "
             "are refused",
             "run Linux 5.14 or later"});
  } else {
    job.add({"kernel", check_status::ok, release, "no limit of it is known that matters here", ""});
  }
}

}  // namespace numapool::diagnosis
