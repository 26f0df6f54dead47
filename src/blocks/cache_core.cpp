// SPDX-License-Identifier: Apache-2.0
#include "blocks/cache_core.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "blocks/memory_pressure.hpp"
#include "blocks/zeroing.hpp"
#include "memory/buffer_state.hpp"
#include "memory/placement.hpp"
#include "pool/blocking.hpp"

namespace numapool::detail {
namespace {

using blocks::kept_buffer;
using blocks::kept_chain;
using memory::buffer_state;

// The kernel renews the average every two seconds.
constexpr std::chrono::seconds pressure_look_period{1};

void add(buffer_count& to, const kept_chain& gone) noexcept {
  to.buffers += gone.buffers();
  to.bytes += gone.bytes();
}

// The request that would have got it.
request question_of(const buffer_state& state) noexcept {
  request what = state.asked;
  if (state.node_source != numapool::node_source::unknown) {
    what.node = node_id::unknown;  // it named the device alone
  }
  return what;
}

bool is_lack_of_room(const boost::system::error_code& error) noexcept {
  return error == errc::out_of_node_memory || error == errc::out_of_memory ||
         error == errc::cgroup_memory_limit || error == errc::no_huge_pages ||
         error == errc::memlock_limit;
}

}  // namespace

cache_core::cache_core(pool_core& pool, const buffer_cache_options& options, time_source now)
    : pool_(pool),
      machine_(pool.machine()),
      process_generation_(machine_.threads.process_generation()),
      base_page_bytes_(machine_.memory.page_size_bytes()),
      options_(options),
      now_(now),
      kept_(std::make_unique<blocks::kept_buffers>()) {}

cache_core::~cache_core() {
  if (is_forked_child()) {
    static_cast<void>(kept_.release());
  }
}

bool cache_core::is_forked_child() const noexcept {
  return machine_.threads.process_generation() != process_generation_;
}

buffer cache_core::take(const request& what, contents wanted) {
  buffer found = take_kept(what);
  if (found) {
    if (wanted == contents::as_is) {
      return found;
    }
    return zero(std::move(found), what);
  }
  look();
  buffer made = allocate_and_wait(pool_, what, route::node_workers);
  if (made.why() && make_room(made.why())) {
    made = allocate_and_wait(pool_, what, route::node_workers);
  }
  return made;
}

// Without workers, as after a shutdown, the caller zeroes alone.
buffer cache_core::zero(buffer found, const request& what) {
  node_workers* workers = nullptr;
  if (blocks::is_worth_sharing(found.mapped_bytes())) {
    static_cast<void>(pool_.find_workers(found.node_requested(), workers));
  }
  const auto begun = std::chrono::steady_clock::now();
  if (!blocks::zero_and_wait(found.data(), found.mapped_bytes(), workers,
                             base::deadline_of(what.timeout))) {
    put_back(std::move(found));
    return failed_buffer(zeroing_timed_out(what));
  }
  note_zeroing(found, std::chrono::steady_clock::now() - begun);
  return found;
}

void cache_core::note_zeroing(buffer& found, std::chrono::nanoseconds taken) noexcept {
  timings& times = buffer_state::of(found)->timings;
  times.populate = taken;
  times.total = taken;
}

failure cache_core::zeroing_timed_out(const request& what) {
  return {errc::timed_out,
          operation::populate,
          what.node,
          what.size_bytes,
          {},
          "zeroing a buffer to be used again took longer than the timeout of " +
              std::to_string(what.timeout.count()) + " ms; it is kept as it was"};
}

buffer cache_core::take_kept(const request& what) noexcept {
  if (is_forked_child()) {
    return {};
  }
  const auto key = blocks::key_of(what, base_page_bytes_);
  std::unique_ptr<kept_buffer> found;
  {
    const base::lock_guard lock(mutex_);
    if (key) {
      found = kept_->take(*key);
    }
    ++(found != nullptr ? counts_.hits : counts_.misses);
  }
  if (found == nullptr) {
    return {};
  }
  buffer_state& state = *buffer_state::of(found->held);
  state.size_bytes = what.size_bytes;
  state.asked.size_bytes = what.size_bytes;
  state.timings = {};
  return std::move(found->held);
}

// Pages may have moved while they were used, even where a policy holds them against the kernel's
// balancing: by migrate_pages(2), by a cpuset with memory_migrate, through swap.
bool cache_core::has_moved(const buffer_state& state) const {
  const placement now =
      memory::measure_placement(machine_, memory::measured_range::of(state), verify_policy::sample);
  return now.by == witness::none || now.share_on_node < state.placement.share_on_node;
}

bool cache_core::is_well_placed(buffer& given) {
  const buffer_state& state = *buffer_state::of(given);
  const bool was_full = state.placement.verified == verify_policy::full;
  // A sample that says no less leaves what a full look has said.
  if (!was_full || has_moved(state)) {
    given.remeasure(was_full ? verify_policy::full : verify_policy::sample);
  }
  const topology& nodes = pool_.nodes();
  const bool is_strict = state.asked.bind == bind_policy::strict;
  if (state.placement.by == witness::none) {
    // Only where memory can be in one place alone.
    const auto all = nodes.nodes();
    return std::count_if(all.begin(), all.end(),
                         [](const node_info& one) { return one.memory_bytes > 0; }) <= 1;
  }
  if (is_strict && state.placement.share_on_node < 1) {
    return false;
  }
  const node_id wanted =
      is_strict ? given.node_requested() : nodes.nearest_memory_node(given.node_requested());
  return given.node_reached() == wanted;
}

std::unique_ptr<kept_buffer> cache_core::examine(buffer& given) {
  const buffer_state& state = *buffer_state::of(given);
  if (state.machine != &machine_ || !state.is_ours() || state.route != route::node_workers ||
      given.mapped_bytes() > options_.max_bytes) {
    return nullptr;
  }
  const auto key = blocks::key_of(question_of(state), base_page_bytes_);
  if (!key || key->mapped_bytes != given.mapped_bytes() || !is_well_placed(given)) {
    return nullptr;
  }
  auto added = std::make_unique<kept_buffer>();
  added->key = *key;
  added->since = now_();
  added->held = std::move(given);
  return added;
}

// Whatever is let go is destroyed last, without a lock.
void cache_core::give(buffer&& done_with) noexcept {
  buffer given = std::move(done_with);
  if (!given || is_forked_child()) {
    return;
  }
  const std::size_t mapped_bytes = given.mapped_bytes();
  try {
    if (auto added = examine(given)) {
      keep(std::move(added));
    } else {
      count_refused(mapped_bytes);
    }
  } catch (const std::bad_alloc&) {
    count_refused(mapped_bytes);
  }
  look();
}

void cache_core::put_back(buffer taken) noexcept {
  const std::size_t mapped_bytes = taken.mapped_bytes();
  try {
    if (auto added = examine(taken)) {
      keep(std::move(added));
    }
  } catch (const std::bad_alloc&) {
    count_refused(mapped_bytes);
  }
}

void cache_core::keep(std::unique_ptr<kept_buffer> added) {
  kept_chain ending;
  const base::lock_guard lock(mutex_);
  let_go_down_to(options_.max_bytes - added->held.mapped_bytes(), ending);
  add(counts_.trimmed_by_bytes, ending);
  kept_->add(added);
}

void cache_core::count_refused(std::size_t mapped_bytes) noexcept {
  const base::lock_guard lock(mutex_);
  ++counts_.refused.buffers;
  counts_.refused.bytes += mapped_bytes;
}

void cache_core::let_go_down_to(std::size_t keep_bytes, kept_chain& ending) noexcept {
  while (kept_->bytes() > keep_bytes) {
    ending.push(kept_->take(*kept_->oldest()));
  }
}

void cache_core::let_go_older_than(time_point since, kept_chain& ending) noexcept {
  while (kept_->oldest() != nullptr && kept_->oldest()->since <= since) {
    ending.push(kept_->take(*kept_->oldest()));
  }
}

void cache_core::look() noexcept {
  if (is_forked_child()) {
    return;
  }
  const time_point now = now_();
  if (options_.max_age.count() > 0) {
    kept_chain ending;
    const base::lock_guard lock(mutex_);
    let_go_older_than(now - options_.max_age, ending);
    add(counts_.trimmed_by_age, ending);
  }
  if (options_.pressure_limit_percent > 0) {
    look_at_pressure(now);
  }
}

// One thread a second; without memory to read it there is pressure enough.
void cache_core::look_at_pressure(time_point now) noexcept {
  time_point::rep due = next_look_.load(std::memory_order_relaxed);
  const time_point::rep next = (now + pressure_look_period).time_since_epoch().count();
  if (now.time_since_epoch().count() < due ||
      !next_look_.compare_exchange_strong(due, next, std::memory_order_relaxed)) {
    return;
  }
  bool is_high = true;
  try {
    is_high =
        blocks::read_memory_pressure(machine_.files).value_or(0) > options_.pressure_limit_percent;
  } catch (const std::bad_alloc&) {
  }
  if (is_high) {
    kept_chain ending;
    const base::lock_guard lock(mutex_);
    let_go_down_to(kept_->bytes() / 2, ending);
    add(counts_.trimmed_by_pressure, ending);
  }
}

bool cache_core::make_room(const failure& why) noexcept {
  if (!is_lack_of_room(why.code) || is_forked_child()) {
    return false;
  }
  kept_chain ending;
  {
    const base::lock_guard lock(mutex_);
    for (kept_buffer* next = kept_->oldest(); next != nullptr;) {
      kept_buffer& one = *std::exchange(next, next->newer);
      if (why.code != errc::out_of_node_memory || one.held.node_reached() == why.node) {
        ending.push(kept_->take(one));
      }
    }
    add(counts_.trimmed_for_room, ending);
  }
  return !ending.empty();
}

std::size_t cache_core::trim(std::size_t keep_bytes) noexcept {
  if (is_forked_child()) {
    return 0;
  }
  kept_chain ending;
  {
    const base::lock_guard lock(mutex_);
    let_go_down_to(keep_bytes, ending);
    add(counts_.trimmed_by_call, ending);
  }
  look();
  return ending.bytes();
}

std::size_t cache_core::trim_older_than(std::chrono::nanoseconds age) noexcept {
  if (is_forked_child()) {
    return 0;
  }
  kept_chain ending;
  {
    const base::lock_guard lock(mutex_);
    let_go_older_than(now_() - std::max(age, std::chrono::nanoseconds(0)), ending);
    add(counts_.trimmed_by_call, ending);
  }
  look();
  return ending.bytes();
}

buffer_cache_stats cache_core::stats() const noexcept {
  if (is_forked_child()) {
    return {};
  }
  const base::lock_guard lock(mutex_);
  buffer_cache_stats now = counts_;
  now.kept = {kept_->buffers(), kept_->bytes()};
  return now;
}

}  // namespace numapool::detail
