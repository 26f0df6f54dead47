// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernel says of its pages, and how we name a node in messages.

#include <cstddef>
#include <string>

#include <numapool/buffer.hpp>
#include <numapool/node.hpp>

#include "platform/platform.hpp"

namespace numapool::memory {

/// Size of a transparent huge page: 2 MiB on x86-64, 512 MiB on arm64 with 64 KiB pages. 0: none,
/// or the kernel's word for it could not be read; `why_none` then says which.
[[nodiscard]] std::size_t thp_page_bytes(const platform::files& files,
                                         std::string* why_none = nullptr);
/// Size of a page of the kernel's reserved pool (hugetlb); 0: `pages` are not from there.
[[nodiscard]] std::size_t hugetlb_page_bytes(page_policy pages) noexcept;
/// Whether transparent huge pages are switched off for the whole machine.
[[nodiscard]] bool is_thp_never(const platform::files& files);
/// "node 3".
[[nodiscard]] std::string node_text(node_id node);

}  // namespace numapool::memory
