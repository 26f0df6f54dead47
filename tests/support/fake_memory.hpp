// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that is really mapped, so that it can be used, with simulated nodes: which node a page is
// on, what each node has free, which pages are huge, what is locked. Reports a test failure when
// the seam's conditions are broken, and where the real kernel would kill the process: OOM under a
// strict policy, SIGBUS in an empty hugetlb pool.
// Threads: safe to share.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <numapool/topology.hpp>

#include "platform/linux_memory.hpp"

namespace numapool::test {

enum class thp_rule {
  always,     ///< every huge page that is advised and fits
  never,      ///< none
  alternate,  ///< every second one, as on a fragmented node
};

class fake_memory final : public platform::memory {
 public:
  static constexpr std::size_t huge_page_bytes = 2ULL << 20U;

  struct node_books {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;
    std::uint64_t huge_free = 0;       ///< free pages of 2 MiB in the hugetlb pool
    std::vector<node_id> by_distance;  ///< itself first, then where its memory spills to
  };
  /// What the kernel of the machine can do.
  struct abilities {
    thp_rule thp = thp_rule::always;
    bool populate_write = true;                   ///< Linux 5.14; EINVAL without
    bool pagemap_scan = true;                     ///< Linux 6.7; ENOTTY without
    std::uint64_t lock_limit_bytes = UINT64_MAX;  ///< RLIMIT_MEMLOCK
  };
  using node_question = std::function<node_id()>;
  using range_question = std::function<bool(const std::byte*, std::size_t)>;

  explicit fake_memory(std::map<node_id, node_books> nodes) : nodes_(std::move(nodes)) {}

  /// Where the calling thread runs: what it touches first lands there.
  void set_toucher(node_question asked) { toucher_ = std::move(asked); }
  /// Whether a driver knows part of a range: unmapping it would be a device's write into somebody
  /// else's memory.
  void set_registered(range_question asked) { is_registered_ = std::move(asked); }
  void set_abilities(const abilities& can);
  void set_free(node_id node, std::uint64_t free_bytes);
  /// Every page of the mappings made from now on goes to this node whatever is asked; empty: back
  /// to the rules.
  void misplace_on(std::optional<node_id> node);
  /// Moves the resident pages of a range, as a long-term pin may.
  void migrate(const std::byte* data, std::size_t size_bytes, node_id to);
  /// Called at each touch and populate, before anything is done, without locks.
  void set_populate_hook(std::function<void(const std::byte*)> hook);

  [[nodiscard]] std::uint64_t free_bytes(node_id node) const;
  [[nodiscard]] std::uint64_t huge_free(
      std::optional<node_id> node) const;  ///< empty: of all nodes
  [[nodiscard]] std::size_t mappings() const;
  [[nodiscard]] std::size_t mappings_made() const;  ///< since the beginning
  [[nodiscard]] std::uint64_t locked_bytes() const;
  [[nodiscard]] std::size_t resident_pages(const std::byte* data, std::size_t size_bytes) const;
  [[nodiscard]] std::size_t pages_on(const std::byte* data, std::size_t size_bytes,
                                     node_id node) const;
  [[nodiscard]] bool is_kept_from_children(const std::byte* data) const;
  [[nodiscard]] std::string numa_maps() const;
  [[nodiscard]] std::size_t queries()
      const;  ///< addresses asked about so far, by query_nodes and query_node
  /// Unmaps what a test left mapped on purpose.
  void forget();

  [[nodiscard]] std::size_t page_size_bytes() const noexcept override;
  platform::error_code map(const platform::map_options& options, platform::mapping& made) override;
  platform::error_code unmap(const platform::mapping& made) override;
  platform::error_code advise(std::byte* data, std::size_t size_bytes,
                              platform::advice what) override;
  platform::error_code bind(std::byte* data, std::size_t size_bytes, platform::memory_policy policy,
                            const node_set& nodes) override;
  platform::error_code touch(std::byte* data, std::size_t size_bytes,
                             std::size_t step_bytes) override;
  platform::error_code lock_on_fault(std::byte* data, std::size_t size_bytes) override;
  [[nodiscard]] std::uint64_t lock_limit_bytes() const noexcept override;
  platform::error_code query_nodes(std::span<void* const> addresses,
                                   std::span<int> nodes) const override;
  platform::error_code query_node(const std::byte* address, int& node) const override;
  platform::error_code scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                       std::size_t& huge_bytes) const override;
  platform::error_code read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                       std::size_t& huge_bytes) const override;

 private:
  struct page {
    std::optional<node_id> node;  // empty: not resident
    bool huge = false;
  };
  struct books {
    platform::mapping mapped;
    std::size_t hugetlb_bytes = 0;
    bool dont_fork = false;
    bool locked = false;
    std::optional<platform::memory_policy> policy;
    node_set policy_nodes;
    std::optional<node_id> misplaced_on;
    std::vector<page> pages;
    std::vector<bool> wants_huge;  // by page
  };

  // The mapping that holds all of the range; a test failure and null when there is none.
  [[nodiscard]] books* find(const std::byte* data, std::size_t size_bytes, const char* what) const;
  [[nodiscard]] std::vector<node_id> candidates(const books& of) const;
  bool take(const books& of, std::uint64_t size_bytes, node_id& from);
  platform::error_code fault(books& of, std::size_t index, bool by_call);
  platform::error_code fault_hugetlb(books& of, std::size_t index, bool by_call);
  bool fault_huge(books& of, std::size_t index);
  void call_hook(const std::byte* data) const;
  void give_back(books& of, std::size_t first, std::size_t count);
  [[nodiscard]] std::size_t count_huge(const books& of, const std::byte* data,
                                       std::size_t size_bytes) const;

  mutable platform::linux_memory real_;
  node_question toucher_;
  range_question is_registered_;

  mutable std::mutex mutex_;
  abilities can_;
  std::map<node_id, node_books> nodes_;
  std::optional<node_id> misplace_on_;
  std::function<void(const std::byte*)> hook_;
  mutable std::map<const std::byte*, books> mappings_;  // by data
  std::size_t mappings_made_ = 0;
  mutable std::size_t queries_ = 0;
};

}  // namespace numapool::test
