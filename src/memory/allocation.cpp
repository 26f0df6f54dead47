// SPDX-License-Identifier: Apache-2.0
#include "memory/allocation.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "memory/kernel_pages.hpp"
#include "memory/registration.hpp"
#include "memory/release_queue.hpp"

namespace numapool::memory {
namespace {

// Small enough that a deadline or a cancellation is seen within milliseconds and two requests share
// their node's workers; large enough that taking one costs nothing. 2 to 32 MiB are equally fast
// (field measurements, A2), and two threads pay from 4 MiB up.
constexpr std::size_t piece_bytes_min = 2ULL << 20U;   // 2 MiB
constexpr std::size_t piece_bytes_max = 32ULL << 20U;  // 32 MiB
// A worker that was given a slower CPU, or began late, is then one such part behind the others.
constexpr std::size_t pieces_a_worker = 4;
// The first registration waits for the first pieces of all workers.
constexpr std::size_t pieces_a_worker_with_chunks = 32;

/// "node 0", "nodes 0-1,8".
std::string nodes_text(const topology& machine) {
  node_set ids;
  for (const node_info& node : machine.nodes()) {
    ids.insert(node.id);
  }
  return (ids.size() == 1 ? "node " : "nodes ") + ids.to_list();
}

void add_sentence(std::string& reason, const std::string& more) {
  reason += reason.empty() || more.empty() ? more : "; " + more;
}

std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

allocation::allocation(const surroundings& where, const request& what, numapool::route route,
                       const worker_facts& workers)
    : machine_(where.machine),
      nodes_(where.nodes),
      admission_(where.admission),
      reserve_bytes_(where.reserve_bytes),
      what_(what),
      workers_(workers),
      base_page_bytes_(where.machine.memory.page_size_bytes()),
      state_(std::make_unique<buffer_state>(where.machine)) {
  state_->asked = what;
  state_->size_bytes = what.size_bytes;
  state_->node_requested = what.node;
  state_->node_source = workers.node_source;
  state_->node_of_workers = workers.node;
  state_->workers = workers.count;
  state_->device = what.device;
  state_->route = route;
  state_->policy.asked = what.bind;
  state_->pin.asked = what.pin;
}

failure allocation::fail(errc code, operation step, std::string message,
                         boost::system::error_code cause) const {
  return {code, step, what_.node, what_.size_bytes, cause, std::move(message)};
}

failure allocation::validate(const topology& nodes, const request& what, numapool::route route,
                             std::size_t page_size_bytes) {
  const auto refuse = [&what](errc code, std::string message) -> failure {
    return {code, operation::resolve, what.node, what.size_bytes, {}, std::move(message)};
  };
  if (what.size_bytes == 0) {
    return refuse(errc::zero_size, "asked for zero bytes: ask for at least one");
  }
  const std::size_t unit = std::max(hugetlb_page_bytes(what.pages), page_size_bytes);
  if (what.size_bytes > PTRDIFF_MAX - unit) {
    return refuse(errc::size_overflow, "asked for " + std::to_string(what.size_bytes) +
                                           " bytes, more than an address space holds");
  }
  if (what.timeout.count() < 0) {
    return refuse(errc::invalid_option, "asked for a timeout below zero: 0 means no limit");
  }
  if (what.huge_page_budget.count() < 0) {
    return refuse(errc::invalid_option,
                  "asked for a huge page budget below zero: 0 means no limit");
  }
  if (route != route::node_workers) {
    return {};
  }
  const node_info* const node = nodes.find(what.node);
  if (node == nullptr) {
    const std::string asked = what.node.is_unknown() ? "the unknown node" : node_text(what.node);
    return refuse(
        errc::unknown_node,
        "asked for " + asked + ", which this machine has not: it has " + nodes_text(nodes));
  }
  if (what.bind == bind_policy::strict && !node->allowed_memory) {
    return refuse(errc::node_not_allowed, "asked for memory strictly on " + node_text(what.node) +
                                              ", which this process may not use (allowed: " +
                                              nodes.allowed_nodes().to_list() +
                                              "): widen cpuset.mems or ask for another node");
  }
  return {};
}

failure allocation::prepare() {
  started_ = clock::now();
  memory_node_ =
      what_.node.is_unknown() || is_strict() ? what_.node : nodes_.nearest_memory_node(what_.node);
  for (const auto step : {&allocation::plan_pin, &allocation::admit, &allocation::map,
                          &allocation::lock, &allocation::bind}) {
    if (failure why = (this->*step)()) {
      registration_.reset();
      state_ = std::make_unique<buffer_state>(machine_);
      ticket_ = {};
      return why;
    }
  }
  populate_started_ = clock::now();
  state_->timings.map = populate_started_ - started_;
  return {};
}

failure allocation::plan_pin() {
  switch (what_.pin) {
    case pin_policy::none:
      pin_plan_ = pin_kind::none;
      return {};
    case pin_policy::mlock:
      pin_plan_ = pin_kind::mlock;
      return {};
    case pin_policy::automatic:
    case pin_policy::cuda:
      return plan_cuda_pin();
  }
  return {};
}

failure allocation::plan_cuda_pin() {
  const platform::registrar_status cuda = machine_.registrar.probe();
  const bool is_usable = cuda.route != platform::registrar_route::none && cuda.device_count > 0;
  if (!is_usable) {
    const std::string reason =
        cuda.route == platform::registrar_route::none ? cuda.reason : "CUDA has no device here";
    if (what_.pin == pin_policy::cuda) {
      return fail(
          errc::cuda_unavailable, operation::pin,
          "asked to pin with CUDA, but " + reason + "; an automatic pin falls back to mlock",
          cuda.error);
    }
    pin_plan_ = pin_kind::mlock;
    state_->pin.error = cuda.error;
    state_->pin.reason = "no CUDA pin: " + reason;
    return {};
  }
  if (what_.device && (*what_.device < 0 || *what_.device >= cuda.device_count)) {
    return fail(errc::unknown_device, operation::resolve,
                "asked for CUDA device " + std::to_string(*what_.device) +
                    ", but this process sees " + std::to_string(cuda.device_count));
  }
  pin_plan_ = pin_kind::cuda;
  state_->pin.via =
      cuda.route == platform::registrar_route::runtime ? pin_route::runtime : pin_route::driver;
  cuda_device_ =
      what_.device ? *what_.device : choose_device(machine_, nodes_, what_.node, cuda.device_count);
  return {};
}

failure allocation::admit() {
  if (failure why = check_huge_page_pool()) {
    return why;
  }
  admission_request wanted;
  wanted.node = memory_node_;
  wanted.size_bytes =
      round_up(what_.size_bytes, std::max(base_page_bytes_, is_hugetlb_ ? huge_page_bytes_ : 0));
  wanted.strict = is_strict();
  wanted.from_page_cache = !is_hugetlb_;
  wanted.reserve_bytes = reserve_bytes_;
  return admission_.admit(wanted, ticket_);
}

// A mapping of more huge pages than the node's pool has is made without an error and then dies of
// SIGBUS.
failure allocation::check_huge_page_pool() {
  huge_page_bytes_ = hugetlb_page_bytes(what_.pages);
  is_hugetlb_ = huge_page_bytes_ != 0;
  if (!is_hugetlb_) {
    return {};
  }
  const std::size_t wanted = round_up(what_.size_bytes, huge_page_bytes_) / huge_page_bytes_;
  const node_id pool_node = is_strict() ? memory_node_ : node_id::unknown;
  auto free = free_huge_pages(machine_.files, pool_node, huge_page_bytes_);
  if (free && *free < wanted && release_queue::of_process().wait()) {
    free = free_huge_pages(machine_.files, pool_node, huge_page_bytes_);
  }
  if (!free || *free < wanted) {
    return fail(errc::no_huge_pages, operation::admit,
                "asked for " + std::to_string(wanted) + " huge pages of " +
                    std::to_string(huge_page_bytes_ >> 20U) + " MiB, but " +
                    std::to_string(free.value_or(0)) + " are free" +
                    (is_strict() ? " on " + node_text(memory_node_) : "") +
                    ": raise nr_hugepages, or ask for thp or base pages");
  }
  return {};
}

failure allocation::map() {
  const bool may_be_huge = what_.pages == page_policy::automatic || what_.pages == page_policy::thp;
  if (may_be_huge) {
    const std::size_t thp = thp_page_bytes(machine_.files, &state_->pages.reason);
    huge_page_bytes_ = what_.size_bytes >= thp ? thp : 0;
    if (thp != 0 && huge_page_bytes_ == 0) {
      state_->pages.reason = "shorter than one huge page";
    }
  }
  platform::map_options options;
  options.size_bytes =
      round_up(what_.size_bytes, is_hugetlb_ ? huge_page_bytes_ : base_page_bytes_);
  options.alignment_bytes = std::max(base_page_bytes_, huge_page_bytes_);
  options.huge_page_size_bytes = is_hugetlb_ ? huge_page_bytes_ : 0;

  // Decided before there is anything to undo.
  if (pin_plan_ == pin_kind::cuda) {
    const auto chunk = chunk_length(
        {what_.chunk_bytes, what_.block_stride_bytes,
         options.huge_page_size_bytes != 0 ? options.huge_page_size_bytes : base_page_bytes_,
         registration_limit_bytes(machine_.files)},
        options.size_bytes);
    if (!chunk) {
      return fail(errc::invalid_option, operation::pin,
                  "a block of " + std::to_string(what_.block_stride_bytes) +
                      " bytes is longer than one registration may be here: see registration limits "
                      "in README");
    }
    chunk_bytes_ = *chunk;
  }
  platform::mapping made;
  auto error = machine_.memory.map(options, made);
  if (error && release_queue::of_process().wait()) {
    error = machine_.memory.map(options, made);
  }
  if (error) {
    const bool is_full = error == boost::system::errc::not_enough_memory;
    return fail(is_full && is_hugetlb_ ? errc::no_huge_pages
                : is_full              ? errc::out_of_memory
                                       : errc::map_failed,
                operation::map,
                "the kernel refused to map " + std::to_string(options.size_bytes) +
                    " bytes: " + error.message(),
                error);
  }
  state_->adopt(made);
  keep_from_children();
  advise_page_kind();
  populate_by_call_ = is_hugetlb_ || what_.populate == populate_mode::fast;
  plan_pieces();
  if (pin_plan_ == pin_kind::cuda) {
    registration_.emplace(*state_, cuda_device_, chunk_bytes_, piece_bytes_);
  }
  return {};
}

void allocation::plan_pieces() {
  const bool has_chunks = pin_plan_ == pin_kind::cuda && chunk_bytes_ < mapped_bytes();
  const std::size_t parts =
      std::max(workers_.count, 1U) * (has_chunks ? pieces_a_worker_with_chunks : pieces_a_worker);
  const std::size_t wanted = std::clamp(mapped_bytes() / parts, piece_bytes_min, piece_bytes_max);
  piece_bytes_ = round_up(wanted, std::max(huge_page_bytes_, base_page_bytes_));
}

// A sandbox that denies madvise() is no reason to do without memory; but the handle says what that
// means for a fork.
void allocation::keep_from_children() {
  const auto error =
      machine_.memory.advise(state_->mapped.data, mapped_bytes(), platform::advice::dont_fork);
  if (error) {
    state_->pages.is_kept_from_children = false;
    add_page_reason(
        "a forked child will share the memory, since the kernel refused to keep it "
        "from children: " +
        error.message());
  }
}

void allocation::add_page_reason(const std::string& reason) {
  add_sentence(state_->pages.reason, reason);
}

// Not getting the page kind is no failure: note_page_kind() looks at what came of it.
void allocation::advise_page_kind() {
  if (is_hugetlb_) {
    return;
  }
  const auto what =
      huge_page_bytes_ != 0 ? platform::advice::huge_pages : platform::advice::no_huge_pages;
  const auto error = machine_.memory.advise(state_->mapped.data, mapped_bytes(), what);
  if (error && huge_page_bytes_ != 0) {
    add_page_reason("the kernel refused huge pages: " + error.message());
    huge_page_bytes_ = 0;
  }
}

// Before the pages exist: 15 us, where locking resident base pages takes 50 ms a GiB.
failure allocation::lock() {
  if (pin_plan_ != pin_kind::mlock) {
    return {};
  }
  auto error = machine_.memory.lock_on_fault(state_->mapped.data, mapped_bytes());
  if (error && release_queue::of_process().wait()) {
    error = machine_.memory.lock_on_fault(state_->mapped.data, mapped_bytes());
  }
  if (!error) {
    state_->pin.obtained = pin_kind::mlock;
    state_->pin.via = pin_route::mlock;
    return {};
  }
  const bool is_limit =
      error.value() == ENOMEM || error.value() == EPERM || error.value() == EAGAIN;
  const std::string reason =
      "mlock refused " + std::to_string(mapped_bytes()) + " bytes: " + error.message() +
      (is_limit
           ? " (RLIMIT_MEMLOCK is " + std::to_string(machine_.memory.lock_limit_bytes() / 1024) +
                 " KiB: raise it with ulimit -l, LimitMEMLOCK= or CAP_IPC_LOCK)"
           : "");
  if (what_.pin == pin_policy::mlock) {
    return fail(is_limit ? errc::memlock_limit : errc::lock_failed, operation::pin, reason, error);
  }
  pin_plan_ = pin_kind::none;
  state_->pin.error = error;
  state_->pin.reason += state_->pin.reason.empty() ? reason : "; " + reason;
  return {};
}

// Without a policy pages are where they are touched first: worth a word where that is another node.
std::string allocation::where_touch_places() const {
  if (workers_.node == what_.node) {
    return {};
  }
  return "no CPU of " + node_text(what_.node) + " may be used here, so workers of " +
         node_text(workers_.node) + " touch the pages first";
}

failure allocation::bind() {
  bind_outcome& outcome = state_->policy;
  const bool is_placed_by_touch = workers_.pinned && workers_.node == memory_node_;
  outcome.obtained = is_placed_by_touch ? bind_kind::first_touch : bind_kind::none;
  if (what_.node.is_unknown()) {
    return {};
  }
  if (memory_node_ != what_.node) {
    outcome.reason = node_text(what_.node) +
                     " gives this process no memory; the nearest that does is " +
                     (memory_node_.is_unknown() ? "unknown" : node_text(memory_node_));
  }
  if (what_.bind == bind_policy::none || memory_node_.is_unknown()) {
    add_sentence(outcome.reason, where_touch_places());
    return {};
  }
  const auto policy = is_strict() ? platform::memory_policy::bind : platform::memory_policy::prefer;
  const auto error =
      machine_.memory.bind(state_->mapped.data, mapped_bytes(), policy, node_set{memory_node_});
  if (!error) {
    outcome.obtained = is_strict() ? bind_kind::bind : bind_kind::prefer;
    return {};
  }
  outcome.error = error;
  add_sentence(outcome.reason, "the kernel refused the memory policy: " + error.message());
  add_sentence(outcome.reason, is_placed_by_touch
                                   ? "the workers' first touch alone places the pages"
                                   : where_touch_places());
  if (is_strict() && !is_placed_by_touch) {
    return fail(errc::policy_denied, operation::bind,
                outcome.reason + "; ask to prefer the node instead", error);
  }
  return {};
}

}  // namespace numapool::memory
