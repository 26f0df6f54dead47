// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <numapool/buffer.hpp>

#include "base/check.hpp"
#include "memory/buffer_state.hpp"
#include "memory/placement.hpp"
#include "memory/release_queue.hpp"

namespace numapool {
namespace memory {
namespace {

// Counters for people to read; nothing is decided by them, so their order against other memory does
// not matter.
struct atomic_totals {
  std::atomic<std::uint64_t> buffers_live{0};
  std::atomic<std::uint64_t> bytes_mapped{0};
  std::atomic<std::uint64_t> bytes_registered{0};
  std::atomic<std::uint64_t> release_failures{0};
};
atomic_totals totals;

}  // namespace

buffer_totals current_totals() noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {totals.buffers_live.load(relaxed), totals.bytes_mapped.load(relaxed),
          totals.bytes_registered.load(relaxed), totals.release_failures.load(relaxed)};
}

buffer_state::buffer_state(platform::platform& machine_of)
    : machine(&machine_of), process_generation(machine_of.threads.process_generation()) {}

buffer_state::buffer_state(failure reason) : why(std::move(reason)) {}

buffer_state::~buffer_state() {
  release();
}

void buffer_state::adopt(const platform::mapping& made) noexcept {
  NUMAPOOL_CHECK(!holds_memory());
  mapped = made;
  totals.buffers_live.fetch_add(1, std::memory_order_relaxed);
  totals.bytes_mapped.fetch_add(made.size_bytes, std::memory_order_relaxed);
}

void buffer_state::add_registration(const registration& made) {
  NUMAPOOL_CHECK(registrations.size() <
                 registrations.capacity());  // reserved before: must not fail now
  registrations.push_back(made);
  totals.bytes_registered.fetch_add(made.size_bytes, std::memory_order_relaxed);
}

bool buffer_state::unregister_all() noexcept {
  std::vector<registration>
      refused;  // its own storage serves twice, so that nothing here allocates
  refused.swap(registrations);
  std::size_t kept = refused.size();
  for (std::size_t i = refused.size(); i-- > 0;) {
    const auto result = machine->registrar.unregister_range(registered_device,
                                                            mapped.data + refused[i].offset_bytes);
    if (result.outcome == platform::unregister_outcome::failed) {
      refused[--kept] = refused[i];
    } else {
      totals.bytes_registered.fetch_sub(refused[i].size_bytes, std::memory_order_relaxed);
    }
  }
  refused.erase(refused.begin(), refused.begin() + static_cast<std::ptrdiff_t>(kept));
  registrations.swap(refused);
  return registrations.empty();
}

// munmap() alone frees the pages with the address space locked for writing: every mmap and thread
// start of the process waits, 50 ms a GiB of base pages. Given back first, without that lock, they
// leave it nothing to do. Where the kernel will not, munmap() does it all.
void buffer_state::give_back_pages() noexcept {
  constexpr std::size_t piece_bytes = 32ULL << 20U;  // a multiple of any huge page but of 1 GiB
  if (mapped.size_bytes <= piece_bytes || pages.page_size_bytes > piece_bytes) {
    return;
  }
  for (std::size_t offset = 0; offset < mapped.size_bytes; offset += piece_bytes) {
    const std::size_t size = std::min(piece_bytes, mapped.size_bytes - offset);
    if (machine->memory.advise(mapped.data + offset, size, platform::advice::dont_need)) {
      return;
    }
  }
}

void buffer_state::release() noexcept {
  if (!holds_memory()) {
    return;
  }
  if (!is_ours()) {
    return;
  }
  // A device may still write to a range that the driver did not take back: such memory is never
  // unmapped.
  const bool is_free_of_cuda = unregister_all();
  if (is_free_of_cuda) {
    give_back_pages();
  }
  if (!is_free_of_cuda || machine->memory.unmap(mapped)) {
    totals.release_failures.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  totals.buffers_live.fetch_sub(1, std::memory_order_relaxed);
  totals.bytes_mapped.fetch_sub(mapped.size_bytes, std::memory_order_relaxed);
}

}  // namespace memory

namespace {

const memory::buffer_state& held(const std::unique_ptr<memory::buffer_state>& state) {
  NUMAPOOL_CHECK(state != nullptr && state->holds_memory());
  return *state;
}

template <typename Enum, std::size_t Count>
std::string_view enumerator_name(Enum value,
                                 const std::array<std::string_view, Count>& names) noexcept {
  const auto index = static_cast<std::size_t>(value);
  NUMAPOOL_CHECK(index < Count);
  return names[index];
}

}  // namespace

buffer::buffer() noexcept = default;
buffer::buffer(std::unique_ptr<memory::buffer_state> state) noexcept : state_(std::move(state)) {}
buffer::buffer(buffer&& other) noexcept = default;
buffer& buffer::operator=(buffer&& other) noexcept {
  if (this != &other) {
    memory::release(std::exchange(state_, std::move(other.state_)));
  }
  return *this;
}
buffer::~buffer() {
  memory::release(std::move(state_));
}

buffer::operator bool() const noexcept {
  return state_ != nullptr && state_->holds_memory();
}
void buffer::reset() noexcept {
  memory::release(std::move(state_));
}
void wait_for_releases() noexcept {
  memory::release_queue::of_process().wait();
}

std::byte* buffer::data() const noexcept {
  return *this ? state_->mapped.data : nullptr;
}
std::size_t buffer::size_bytes() const noexcept {
  return *this ? state_->size_bytes : 0;
}
std::size_t buffer::mapped_bytes() const noexcept {
  return *this ? state_->mapped.size_bytes : 0;
}
std::span<std::byte> buffer::span() const noexcept {
  return {data(), size_bytes()};
}

numapool::node_source buffer::node_source() const noexcept {
  return *this ? state_->node_source : numapool::node_source::unknown;
}
node_id buffer::node_requested() const noexcept {
  return *this ? state_->node_requested : node_id::unknown;
}
node_id buffer::node_of_workers() const noexcept {
  return *this ? state_->node_of_workers : node_id::unknown;
}
unsigned buffer::workers() const noexcept {
  return *this ? state_->workers : 0;
}
std::optional<int> buffer::device() const noexcept {
  return *this ? state_->device : std::nullopt;
}
numapool::route buffer::route() const noexcept {
  return *this ? state_->route : numapool::route::node_workers;
}

node_id buffer::node_reached() const noexcept {
  if (!*this) {
    return node_id::unknown;
  }
  const auto& nodes = state_->placement.by_node;
  const auto most = std::max_element(
      nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.pages < b.pages; });
  return most == nodes.end() ? node_id::unknown : most->node;
}

const placement& buffer::placement() const noexcept {
  return held(state_).placement;
}
const page_outcome& buffer::pages() const noexcept {
  return held(state_).pages;
}
const bind_outcome& buffer::policy() const noexcept {
  return held(state_).policy;
}
const pin_outcome& buffer::pin() const noexcept {
  return held(state_).pin;
}
const timings& buffer::timings() const noexcept {
  return held(state_).timings;
}

const placement& buffer::remeasure(verify_policy how) {
  const memory::buffer_state& state = held(state_);
  state_->placement =
      memory::measure_placement(*state.machine, memory::measured_range::of(state), how);
  return state_->placement;
}

std::span<const registration> buffer::registrations() const noexcept {
  return *this ? std::span<const registration>(state_->registrations)
               : std::span<const registration>();
}

std::vector<std::span<std::byte>> buffer::split(std::size_t offset_bytes,
                                                std::size_t size_bytes) const {
  const memory::buffer_state& state = held(state_);
  NUMAPOOL_CHECK(offset_bytes <= mapped_bytes() && size_bytes <= mapped_bytes() - offset_bytes);
  std::vector<std::span<std::byte>> pieces;
  const std::size_t end = offset_bytes + size_bytes;
  if (state.registrations.empty() && size_bytes > 0) {
    pieces.emplace_back(state.mapped.data + offset_bytes, size_bytes);
  }
  for (const registration& range : state.registrations) {
    const std::size_t first = std::max(offset_bytes, range.offset_bytes);
    const std::size_t last = std::min(end, range.offset_bytes + range.size_bytes);
    if (first < last) {
      pieces.emplace_back(state.mapped.data + first, last - first);
    }
  }
  return pieces;
}

namespace {

/// Its destructor does nothing: a static destructor may ask why() too.
union immortal_failure {
  immortal_failure() noexcept : none() {}
  ~immortal_failure() {}
  failure none;
};

}  // namespace

const failure& buffer::why() const noexcept {
  static const immortal_failure kept;
  return state_ != nullptr ? state_->why : kept.none;
}

std::string_view name(page_kind kind) noexcept {
  return enumerator_name(kind, std::array<std::string_view, 3>{"base", "thp", "hugetlb"});
}
std::string_view name(pin_policy policy) noexcept {
  return enumerator_name(policy, std::array<std::string_view, 4>{"auto", "cuda", "mlock", "none"});
}
std::string_view name(pin_kind kind) noexcept {
  return enumerator_name(kind, std::array<std::string_view, 3>{"none", "cuda", "mlock"});
}
std::string_view name(pin_route route) noexcept {
  return enumerator_name(route,
                         std::array<std::string_view, 4>{"none", "runtime", "driver", "mlock"});
}
std::string_view name(bind_policy policy) noexcept {
  return enumerator_name(policy, std::array<std::string_view, 3>{"prefer", "strict", "none"});
}
std::string_view name(bind_kind kind) noexcept {
  return enumerator_name(kind,
                         std::array<std::string_view, 4>{"none", "first-touch", "prefer", "bind"});
}
std::string_view name(verify_policy policy) noexcept {
  return enumerator_name(policy, std::array<std::string_view, 3>{"sample", "full", "off"});
}
std::string_view name(witness which) noexcept {
  return enumerator_name(
      which, std::array<std::string_view, 4>{"none", "move_pages", "get_mempolicy", "numa_maps"});
}
std::string_view name(route which) noexcept {
  return enumerator_name(which, std::array<std::string_view, 3>{"node-workers", "plain-gate-off",
                                                                "plain-node-unknown"});
}

}  // namespace numapool
