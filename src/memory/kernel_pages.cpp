// SPDX-License-Identifier: Apache-2.0
#include "memory/kernel_pages.hpp"

#include "base/text.hpp"

namespace numapool::memory {

std::size_t thp_page_bytes(const platform::files& files) {
  std::string text;
  if (files.read_text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text)) {
    return 0;
  }
  return base::parse_unsigned(base::trimmed(text)).value_or(0);
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
