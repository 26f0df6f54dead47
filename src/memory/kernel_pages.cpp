// SPDX-License-Identifier: Apache-2.0
#include "memory/kernel_pages.hpp"

#include "base/text.hpp"

namespace numapool::memory {

std::size_t thp_page_bytes(const platform::files& files, std::string* why_none) {
  constexpr const char* path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
  std::string text;
  const boost::system::error_code failed = files.read_text(path, text);
  const std::size_t bytes = failed ? 0 : base::parse_unsigned(base::trimmed(text)).value_or(0);
  if (bytes == 0 && why_none != nullptr) {
    const bool is_missing = failed == boost::system::errc::no_such_file_or_directory;
    *why_none = is_missing || !failed ? "the kernel shows no transparent huge pages here"
                                      : "no transparent huge pages: " + std::string(path) +
                                            " could not be read: " + failed.message();
  }
  return bytes;
}

std::size_t hugetlb_page_bytes(page_policy pages) noexcept {
  switch (pages) {
    case page_policy::huge_2mib:
      return 2ULL << 20U;
    case page_policy::huge_1gib:
      return 1ULL << 30U;
    default:
      return 0;
  }
}

bool is_thp_never(const platform::files& files) {
  std::string text;
  return !files.read_text("/sys/kernel/mm/transparent_hugepage/enabled", text) &&
         text.find("[never]") != std::string::npos;
}

std::string node_text(node_id node) {
  return "node " + std::to_string(node.value());
}

}  // namespace numapool::memory
