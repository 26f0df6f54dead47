// SPDX-License-Identifier: Apache-2.0
#pragma once

// The life of one request (src/README.md), as steps that the pool calls on threads of its choice.
// Knows no threads.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <numapool/buffer.hpp>
#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "memory/admission.hpp"
#include "memory/buffer_state.hpp"
#include "memory/registration.hpp"
#include "platform/platform.hpp"

namespace numapool::memory {

/// Who will fill the buffer.
struct worker_facts {
  node_id node;  // theirs; unknown: they are not pinned
  unsigned count = 0;
  bool pinned = false;  // every one of them runs on its node's CPUs only
  // What named the node, if it is a device's.
  numapool::node_source node_source = numapool::node_source::unknown;
};

/// Where and with what an allocation is made. All of it outlives the allocation.
struct surroundings {
  platform::platform& machine;
  const topology& nodes;
  memory::admission& admission;
  std::optional<std::size_t> reserve_bytes;
};

/// Threads: prepare() and finish() alone; populate() of different pieces on any number of threads
/// between the two. The destructor of one that was not taken undoes everything.
class allocation {
 public:
  /// `what.node` is resolved: a node that exists, or unknown on the plain routes.
  allocation(const surroundings& where, const request& what, numapool::route route,
             const worker_facts& workers);

  /// Checks the options without touching anything: zero_size, size_overflow, unknown_node,
  /// node_not_allowed, invalid_option.
  [[nodiscard]] static failure validate(const topology& nodes, const request& what,
                                        numapool::route route, std::size_t page_size_bytes);

  /// Plans the pin, admits, maps, binds. On an error nothing is left.
  [[nodiscard]] failure prepare();
  [[nodiscard]] std::size_t piece_count() const noexcept;
  using interruption = chunked_registration::interruption;
  /// Makes one piece resident; with several registrations to make, also makes those that are ready,
  /// unless another thread is at it. `interrupted` is asked between them.
  [[nodiscard]] failure populate(std::size_t piece, const interruption& interrupted = {});
  /// Finds what is not resident, verifies, pins. On an error the caller drops the allocation.
  [[nodiscard]] failure finish(const interruption& interrupted = {});
  [[nodiscard]] buffer take();

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] failure plan_pin();
  [[nodiscard]] failure plan_cuda_pin();
  [[nodiscard]] failure admit();
  [[nodiscard]] failure check_huge_page_pool();
  [[nodiscard]] failure map();
  void plan_pieces();
  void keep_from_children();
  void advise_page_kind();
  void add_page_reason(const std::string& reason);
  [[nodiscard]] failure lock();
  [[nodiscard]] failure bind();
  [[nodiscard]] std::string where_touch_places() const;
  [[nodiscard]] failure fill_piece(std::byte* data, std::size_t size_bytes);
  [[nodiscard]] failure touch_piece(std::byte* data, std::size_t size_bytes);
  [[nodiscard]] bool gets_huge_pages() const noexcept;
  void judge_huge_pages(std::size_t size_bytes, std::chrono::nanoseconds taken);
  void give_up_huge_pages(std::byte* data, std::size_t size_bytes);
  [[nodiscard]] failure register_ready(const interruption& interrupted);
  [[nodiscard]] failure populate_call(std::byte* data, std::size_t size_bytes);
  void note_page_kind();
  void note_given_up_pages();
  [[nodiscard]] failure close_population();
  [[nodiscard]] failure verify();
  [[nodiscard]] failure verify_once(verify_policy how);
  [[nodiscard]] failure register_with_cuda(const interruption& interrupted);
  [[nodiscard]] bool can_do_without_cuda(const failure& why) const noexcept;
  [[nodiscard]] failure lock_instead(const failure& cuda);
  [[nodiscard]] failure fail(errc code, operation step, std::string message,
                             boost::system::error_code cause = {}) const;
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return state_->mapped.size_bytes; }
  [[nodiscard]] bool is_strict() const noexcept { return what_.bind == bind_policy::strict; }

  // Constant after construction.
  platform::platform& machine_;
  const topology& nodes_;
  memory::admission& admission_;
  const std::optional<std::size_t> reserve_bytes_;
  const request what_;
  const worker_facts workers_;
  const std::size_t base_page_bytes_;

  // Set by prepare(), then constant.
  std::size_t huge_page_bytes_ = 0;  // of hugetlb or THP; 0: base pages
  bool is_hugetlb_ = false;
  bool populate_by_call_ = false;
  std::size_t piece_bytes_ = 0;
  node_id memory_node_;  // where the memory is to come from
  pin_kind pin_plan_ = pin_kind::none;
  int cuda_device_ = -1;
  std::size_t chunk_bytes_ = 0;

  // Written by populate() on any thread, read when all is populated.
  std::atomic<bool> are_huge_pages_slow_{false};
  std::atomic<std::int64_t> slowest_huge_page_ns_{0};  // on average over a piece
  std::atomic<std::size_t> given_up_bytes_{0};         // in base pages because of it
  std::atomic<std::size_t> huge_bytes_seen_{0};       // in huge pages right after they were touched
  std::atomic<bool> is_registration_refused_{false};  // and mlock is to be tried at the end

  std::unique_ptr<buffer_state> state_;
  std::optional<chunked_registration> registration_;  // where the pin is CUDA's
  admission_ticket ticket_;
  clock::time_point started_;
  clock::time_point populate_started_;
};

}  // namespace numapool::memory
