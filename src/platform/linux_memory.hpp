// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "platform/platform.hpp"

namespace numapool::platform {

/// mmap(2) and its relatives, as the seam states them.
class linux_memory : public memory {
 public:
  [[nodiscard]] std::size_t page_size_bytes() const noexcept override;
  error_code map(const map_options& options, mapping& made) override;
  error_code unmap(const mapping& made) override;
  error_code advise(std::byte* data, std::size_t size_bytes, advice what) override;
  error_code bind(std::byte* data, std::size_t size_bytes, memory_policy policy,
                  const node_set& nodes) override;
  error_code touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) override;
  error_code lock_on_fault(std::byte* data, std::size_t size_bytes) override;
  [[nodiscard]] std::uint64_t lock_limit_bytes() const noexcept override;
  error_code query_nodes(std::span<void* const> addresses, std::span<int> nodes) const override;
  error_code query_node(const std::byte* address, int& node) const override;
  error_code scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                             std::size_t& huge_bytes) const override;
  error_code read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                             std::size_t& huge_bytes) const override;
};

}  // namespace numapool::platform
