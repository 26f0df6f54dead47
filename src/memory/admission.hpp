// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether there is room for a request, asked before any page is touched: a strict policy on a full
// node is an OOM kill, not an error (seen with MPOL_BIND by touch, MADV_POPULATE_WRITE and mlock
// alike).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"
#include "topology/cgroup.hpp"

namespace numapool::memory {

/// Bytes that are admitted and not yet resident: the kernel's figures do not show them, so the next
/// request must. Gives them back as pages become resident, and the rest when it ends. Move-only.
class admission_ticket {
 public:
  admission_ticket() noexcept = default;
  admission_ticket(node_id node, std::size_t size_bytes);
  admission_ticket(admission_ticket&& other) noexcept
      : node_(other.node_), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  admission_ticket& operator=(admission_ticket&& other) noexcept;
  ~admission_ticket();

  /// `size_bytes` of it have become resident. Threads: one at a time.
  void give_back(std::size_t size_bytes) noexcept;

 private:
  node_id node_;
  std::size_t size_bytes_ = 0;
};

struct admission_request {
  node_id node;  // where the memory is to come from; unknown: from anywhere
  std::size_t size_bytes = 0;
  bool strict = false;  // the node alone must hold it; else all allowed nodes together may
  bool from_page_cache =
      true;  // false: hugetlb, which takes nothing from the nodes' free memory or the memory cgroup
  std::optional<std::size_t> reserve_bytes;
};

/// Kept free of `total_bytes`: 2 % of it, at least 512 MiB, never more than an eighth.
[[nodiscard]] std::size_t default_reserve_bytes(std::uint64_t total_bytes) noexcept;

/// Says whether there is room. Threads: safe to share.
class admission {
 public:
  /// Both are used for as long as this lives.
  admission(const platform::files& files, const topology& nodes) noexcept;
  /// Errors: out_of_node_memory, out_of_memory, cgroup_memory_limit, naming what was asked, what
  /// there is and which limit. On success `ticket` holds the bytes. One at a time in the whole
  /// process. Cost: reads one meminfo a node and a small file a cgroup, some 30 us; among requests
  /// that come one upon the other and want little of what there is, only the first does.
  [[nodiscard]] failure admit(const admission_request& wanted, admission_ticket& ticket);

 private:
  using clock = std::chrono::steady_clock;
  /// What requests of one kind were found to have left to them.
  struct reading {
    node_id node;
    bool strict = false;
    std::optional<std::size_t> reserve_bytes;
    clock::time_point when = clock::time_point::min();
    std::uint64_t room_bytes = 0;   // the tightest limit's
    std::uint64_t taken_bytes = 0;  // admitted since, resident meanwhile or not
  };
  [[nodiscard]] bool take_of_last_reading(const admission_request& wanted);
  // These lower `room_bytes` to what they find.
  [[nodiscard]] failure check(const admission_request& wanted, std::uint64_t& room_bytes);
  [[nodiscard]] failure check_node(const admission_request& wanted,
                                   std::uint64_t& room_bytes) const;
  [[nodiscard]] failure check_machine(const admission_request& wanted,
                                      std::uint64_t& room_bytes) const;
  [[nodiscard]] failure check_cgroups(const admission_request& wanted, std::uint64_t& room_bytes);

  const platform::files& files_;
  const topology& nodes_;
  // One admission at a time uses them.
  cgroup::memory_limit_reader cgroups_;
  reading last_;
};

/// Free huge pages of `page_size_bytes` on `node` now: the smaller of the node's free pages and the
/// global free pages less those that other mappings have reserved. Empty when the kernel has no
/// such pool.
[[nodiscard]] std::optional<std::uint64_t> free_huge_pages(const platform::files& files,
                                                           node_id node,
                                                           std::size_t page_size_bytes);

}  // namespace numapool::memory
