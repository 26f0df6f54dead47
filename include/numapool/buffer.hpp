// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is asked for (request), what was obtained (placement and its siblings), and the owner of the
// memory (buffer).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/system/error_code.hpp>

#include <numapool/device.hpp>
#include <numapool/error.hpp>
#include <numapool/node.hpp>

namespace numapool {

/// Which pages to map. `automatic` is transparent huge pages where the kernel gives them, else base
/// pages. Huge pages from the kernel's reserved pool (hugetlb) only when asked for, and only if the
/// pool has them free: the node's own for `strict`, any node's otherwise.
enum class page_policy : std::uint8_t { automatic, base, thp, huge_2mib, huge_1gib };
enum class page_kind : std::uint8_t { base, thp, hugetlb };

/// How to keep the memory from moving. `automatic` is CUDA where there is a usable one (whose
/// refusal is then an error, unless it cannot register memory at all), else mlock, else none; the
/// result says which and why.
enum class pin_policy : std::uint8_t { automatic, cuda, mlock, none };
enum class pin_kind : std::uint8_t { none, cuda, mlock };
/// What carried the pin out: the CUDA runtime library, the CUDA driver library alone, or mlock2(2).
enum class pin_route : std::uint8_t { none, runtime, driver, mlock };

/// What a node means. `prefer`: its pages first, others when it is full, and the result says how
/// many. `strict`: all pages there or an error. `none`: no memory policy is set; the workers' first
/// touch alone places the pages.
enum class bind_policy : std::uint8_t { prefer, strict, none };
enum class bind_kind : std::uint8_t { none, first_touch, prefer, bind };

/// How much of the buffer is looked at after it was filled: 64 pages spread over it, every page, or
/// none.
enum class verify_policy : std::uint8_t { sample, full, off };
enum class witness : std::uint8_t { none, move_pages, get_mempolicy, numa_maps };

/// How pages are made resident. `quiet` touches them, which stalls no other thread of the process.
/// `fast` uses MADV_POPULATE_WRITE, quicker with base pages, but every mmap and munmap of the
/// process waits meanwhile.
enum class populate_mode : std::uint8_t { quiet, fast };

/// How the request came: through a node's workers, or past them (make_pinned_storage with the gate
/// off, or with a device whose node is unknown).
enum class route : std::uint8_t { node_workers, plain_gate_off, plain_node_unknown };

[[nodiscard]] std::string_view name(page_kind kind) noexcept;
[[nodiscard]] std::string_view name(pin_policy policy) noexcept;
[[nodiscard]] std::string_view name(pin_kind kind) noexcept;
[[nodiscard]] std::string_view name(pin_route route) noexcept;
[[nodiscard]] std::string_view name(bind_policy policy) noexcept;
[[nodiscard]] std::string_view name(bind_kind kind) noexcept;
[[nodiscard]] std::string_view name(verify_policy policy) noexcept;
[[nodiscard]] std::string_view name(witness which) noexcept;
[[nodiscard]] std::string_view name(route which) noexcept;

/// What to allocate. An aggregate that is trivially destructible, so that it may be written inside
/// a co_await expression: GCC 12 destroys other aggregate temporaries twice there (GCC bug 98401
/// and its kin).
struct request {
  std::size_t size_bytes = 0;  ///< exact; rounded up to whole pages only, never to a power of two
  // Each field has its initialiser, so that a designated list that leaves some out is no warning
  // (-Wextra).
  /// The node to place on; unknown: the node of `device`.
  node_id node = node_id::unknown;
  /// Process-local ordinal of the GPU to pin for; also says the node if `node` does not.
  std::optional<int> device = std::nullopt;
  page_policy pages = page_policy::automatic;
  pin_policy pin = pin_policy::automatic;
  bind_policy bind = bind_policy::prefer;
  verify_policy verify = verify_policy::sample;
  populate_mode populate = populate_mode::quiet;
  /// Register in ranges of at most this; 0: one registration up to 64 GiB (2 GiB on kernels 6.11 to
  /// 6.13). Rounded down to pages and, with block_stride_bytes, to whole blocks.
  std::size_t chunk_bytes = 0;
  /// No block [k x stride, (k+1) x stride) straddles two registrations; 0: no blocks.
  std::size_t block_stride_bytes = 0;
  /// Longest time from the start of work to the finished buffer; 0: no limit. Looked at between
  /// pieces of at most 32 MiB.
  std::chrono::milliseconds timeout{0};
  /// How much CPU time 2 MiB of transparent huge pages may take, on average over a piece. Once a
  /// piece has taken more, the rest of the buffer is filled with base pages, and page_outcome says
  /// so: on a node whose free memory is in fragments the kernel may compact it for each huge page,
  /// a hundred times slower than base pages come. 0: no limit. Memory that a virtual machine's host
  /// has taken back meanwhile takes up to 2.6 ms.
  std::chrono::microseconds huge_page_budget{10'000};
};
static_assert(std::is_trivially_destructible_v<request> && std::is_aggregate_v<request>);

struct pages_on_node {
  node_id node;
  std::size_t pages = 0;
};

/// Where the pages were found.
struct placement {
  /// What was done, which can be more than was asked (see bind_policy).
  verify_policy verified = verify_policy::off;
  witness by = witness::none;  ///< who said so
  /// In base pages: a 2 MiB page that one query covers counts 512.
  std::size_t pages_checked = 0;
  /// By ascending node; unknown: pages that were not resident.
  std::vector<pages_on_node> by_node;
  /// Of the checked pages, on the node asked for; 0 if none was checked.
  double share_on_node = 0;
  boost::system::error_code error;  ///< why a better witness could not speak, if so
};

struct bind_outcome {
  bind_policy asked = bind_policy::prefer;
  bind_kind obtained = bind_kind::none;
  boost::system::error_code error;  ///< why not what was asked
  std::string reason;               ///< the same in a sentence
};

struct pin_outcome {
  pin_policy asked = pin_policy::automatic;
  pin_kind obtained = pin_kind::none;
  pin_route via = pin_route::none;
  boost::system::error_code error;
  std::string reason;
};

struct page_outcome {
  page_kind kind = page_kind::base;
  std::size_t page_size_bytes = 0;  ///< of `kind`
  /// Bytes found in huge pages; empty when the kernel does not say.
  std::optional<std::size_t> huge_bytes;
  std::string reason;  ///< why not the better kind, or not kept from children, if so
  /// A forked child has no share in the memory, which would cost copies (MADV_DONTFORK).
  bool is_kept_from_children = true;
  /// Bytes filled with base pages because huge pages were slower than request::huge_page_budget.
  std::size_t given_up_bytes = 0;
};

/// One range that the driver knows. A copy that crosses two registrations can be refused by the
/// driver: see split().
struct registration {
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  void* device_pointer = nullptr;
};

/// Wall-clock time of each step. With several registrations they are made while the rest is
/// populated: the steps then add up to more than the total.
struct timings {
  std::chrono::nanoseconds map{0};
  std::chrono::nanoseconds populate{0};
  std::chrono::nanoseconds verify{0};
  std::chrono::nanoseconds register_{0};
  std::chrono::nanoseconds total{0};
};

namespace memory {
struct buffer_state;
}

/// The owner of one placed, resident, pinned range of zeroed memory. Move-only; a
/// default-constructed one is empty.
///
/// Threads: distinct objects are safe. One object: const members may run at once, anything else
/// alone.
/// Owns: the mapping, its guard pages and its registrations; undone in reverse on destruction, on
/// whichever thread. Outlives the pool that made it, and the CUDA driver: one that has unloaded
/// holds no registration any more. A range that the driver refuses to unregister stays mapped (and
/// is counted in worker_pool::stats), since it may still be written by a device. A forked child has
/// no share in it: the pages are not there (MADV_DONTFORK), and destroying the child's copy of the
/// handle does nothing.
/// Cost: destruction of 1 MiB and more hands the memory to a thread of the library's
/// ("numapool-free", started by the first), which unregisters and unmaps it: some microseconds for
/// the caller, up to 0.1 s a GiB with base pages until it is free; see wait_for_releases(). Where
/// no thread can be had, and while the process exits, the caller does it.
class buffer {
 public:
  buffer() noexcept;
  buffer(buffer&& other) noexcept;
  buffer& operator=(buffer&& other) noexcept;
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer();

  [[nodiscard]] explicit operator bool() const noexcept;  ///< holds memory
  /// Undoes everything and leaves the handle empty.
  void reset() noexcept;

  [[nodiscard]] std::byte* data()
      const noexcept;  ///< null when empty; page aligned, 2 MiB aligned with thp
  [[nodiscard]] std::size_t size_bytes() const noexcept;  ///< as asked
  [[nodiscard]] std::size_t mapped_bytes()
      const noexcept;  ///< rounded up to whole pages; all of it is usable
  [[nodiscard]] std::span<std::byte> span() const noexcept;  ///< size_bytes() long

  [[nodiscard]] node_id node_requested() const noexcept;  ///< unknown on the plain routes
  /// What said that this is the device's node; unknown when the request named the node.
  /// `heuristic` is a guess.
  [[nodiscard]] numapool::node_source node_source() const noexcept;
  /// The node that holds most of the checked pages; unknown when none was checked.
  [[nodiscard]] node_id node_reached() const noexcept;
  /// The node whose CPUs filled it: another than requested where that has no usable CPU.
  [[nodiscard]] node_id node_of_workers() const noexcept;
  [[nodiscard]] unsigned workers() const noexcept;  ///< how many of them took part, at most
  [[nodiscard]] std::optional<int> device() const noexcept;
  [[nodiscard]] numapool::route route() const noexcept;

  /// Requires: not empty (checked, aborts), for these.
  [[nodiscard]] const numapool::placement& placement() const noexcept;
  [[nodiscard]] const page_outcome& pages() const noexcept;
  [[nodiscard]] const bind_outcome& policy() const noexcept;
  [[nodiscard]] const pin_outcome& pin() const noexcept;
  [[nodiscard]] const numapool::timings& timings() const noexcept;

  /// Looks again where the pages are, and keeps the answer as placement(). Enters the kernel; see
  /// verify_policy.
  const numapool::placement& remeasure(verify_policy how = verify_policy::full);

  /// In order of offset, covering mapped_bytes(); empty when the pin is not CUDA's.
  [[nodiscard]] std::span<const registration> registrations() const noexcept;
  /// The pieces of [offset, offset+size) none of which crosses two registrations, in order.
  /// Requires: the range lies inside mapped_bytes() (checked, aborts). One piece when nothing is
  /// registered.
  [[nodiscard]] std::vector<std::span<std::byte>> split(std::size_t offset_bytes,
                                                        std::size_t size_bytes) const;

  /// What went wrong, of an empty buffer that an asynchronous operation delivered together with an
  /// error: the details that its error_code cannot carry. Of any other buffer: no failure.
  [[nodiscard]] const failure& why() const noexcept;

 private:
  friend struct memory::buffer_state;
  explicit buffer(std::unique_ptr<memory::buffer_state> state) noexcept;
  std::unique_ptr<memory::buffer_state> state_;
};
/// Returns when the memory of every buffer that was destroyed before is back with the kernel. For
/// those who count free memory, or want to unload a driver. A request of ours needs no such call:
/// where there is too little room it waits by itself. Blocks. Threads: any.
void wait_for_releases() noexcept;

static_assert(std::is_nothrow_move_constructible_v<buffer> &&
              !std::is_copy_constructible_v<buffer>);

}  // namespace numapool
