// SPDX-License-Identifier: Apache-2.0
#include "memory/allocation.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "memory/placement.hpp"
#include "memory/registration.hpp"

namespace numapool::memory {
namespace {

// Small enough that a deadline or a cancellation is seen within milliseconds and two requests share their node's
// workers; large enough that taking one costs nothing. 2 to 32 MiB are equally fast (field measurements, A2).
constexpr std::size_t piece_bytes_min = 32ULL << 20U;  // 32 MiB
constexpr std::size_t mib_2 = 2ULL << 20U;
constexpr std::size_t gib_1 = 1ULL << 30U;

std::size_t round_up(std::size_t value, std::size_t unit) noexcept { return (value + unit - 1) / unit * unit; }

std::size_t hugetlb_page_bytes(page_policy pages) noexcept {
  switch (pages) {
    case page_policy::huge_2mib: return mib_2;
    case page_policy::huge_1gib: return gib_1;
    default: return 0;
  }
}

// What the kernel calls a transparent huge page here: 2 MiB on x86-64, 512 MiB on arm64 with 64 KiB pages. 0: none.
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

std::string node_text(node_id node) { return "node " + std::to_string(node.value()); }

}  // namespace

allocation::allocation(platform::platform& machine, const topology& nodes, const request& what, numapool::route route,
                       const worker_facts& workers, std::optional<std::size_t> reserve_bytes)
    : machine_(machine),
      nodes_(nodes),
      what_(what),
      workers_(workers),
      reserve_bytes_(reserve_bytes),
      base_page_bytes_(machine.memory.page_size_bytes()),
      state_(std::make_unique<buffer_state>(machine)) {
  state_->size_bytes = what.size_bytes;
  state_->node_requested = what.node;
  state_->node_of_workers = workers.node;
  state_->workers = workers.count;
  state_->device = what.device;
  state_->route = route;
  state_->policy.asked = what.bind;
  state_->pin.asked = what.pin;
}

failure allocation::fail(errc code, operation step, std::string message, boost::system::error_code cause) const {
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
  if (route != route::node_workers) {
    return {};
  }
  const node_info* const node = nodes.find(what.node);
  if (node == nullptr) {
    const std::string asked = what.node.is_unknown() ? "the unknown node" : node_text(what.node);
    return refuse(errc::unknown_node,
                  "asked for " + asked + ", which this machine has not: topology::nodes() lists what it has");
  }
  if (what.bind == bind_policy::strict && !node->allowed_memory) {
    return refuse(errc::node_not_allowed,
                  "asked for memory strictly on " + node_text(what.node) +
                      ", which this process may not use (allowed: " + nodes.allowed_nodes().to_list() +
                      "): widen cpuset.mems or ask for another node");
  }
  return {};
}

failure allocation::prepare() {
  started_ = clock::now();
  memory_node_ = what_.node.is_unknown() || is_strict() ? what_.node : nodes_.nearest_memory_node(what_.node);
  for (const auto step :
       {&allocation::plan_pin, &allocation::admit, &allocation::map, &allocation::lock, &allocation::bind}) {
    if (failure why = (this->*step)()) {
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
    case pin_policy::none: pin_plan_ = pin_kind::none; return {};
    case pin_policy::mlock: pin_plan_ = pin_kind::mlock; return {};
    case pin_policy::automatic:
    case pin_policy::cuda: return plan_cuda_pin();
  }
  return {};
}

failure allocation::plan_cuda_pin() {
  const platform::registrar_status cuda = machine_.registrar.probe();
  const bool is_usable = cuda.route != platform::registrar_route::none && cuda.device_count > 0;
  if (!is_usable) {
    const std::string reason = cuda.route == platform::registrar_route::none ? cuda.reason : "CUDA has no device here";
    if (what_.pin == pin_policy::cuda) {
      return fail(errc::cuda_unavailable, operation::pin,
                  "asked to pin with CUDA, but " + reason + "; pin_policy::automatic falls back to mlock", cuda.error);
    }
    pin_plan_ = pin_kind::mlock;
    state_->pin.error = cuda.error;
    state_->pin.reason = "no CUDA pin: " + reason;
    return {};
  }
  if (what_.device && (*what_.device < 0 || *what_.device >= cuda.device_count)) {
    return fail(errc::unknown_device, operation::resolve,
                "asked for CUDA device " + std::to_string(*what_.device) + ", but this process sees " +
                    std::to_string(cuda.device_count));
  }
  pin_plan_ = pin_kind::cuda;
  state_->pin.via = cuda.route == platform::registrar_route::runtime ? pin_route::runtime : pin_route::driver;
  cuda_device_ = what_.device ? *what_.device : choose_device(machine_, nodes_, what_.node, cuda.device_count);
  return {};
}

failure allocation::admit() {
  if (failure why = check_huge_page_pool()) {
    return why;
  }
  admission_request wanted;
  wanted.node = memory_node_;
  wanted.size_bytes = round_up(what_.size_bytes, std::max(base_page_bytes_, is_hugetlb_ ? huge_page_bytes_ : 0));
  wanted.strict = is_strict();
  wanted.from_page_cache = !is_hugetlb_;
  wanted.reserve_bytes = reserve_bytes_;
  return memory::admit(machine_.files, nodes_, wanted, ticket_);
}

// A mapping of more huge pages than the node's pool has is made without an error and then dies of SIGBUS.
failure allocation::check_huge_page_pool() {
  huge_page_bytes_ = hugetlb_page_bytes(what_.pages);
  is_hugetlb_ = huge_page_bytes_ != 0;
  if (!is_hugetlb_) {
    return {};
  }
  const std::size_t wanted = round_up(what_.size_bytes, huge_page_bytes_) / huge_page_bytes_;
  const node_id pool_node = is_strict() ? memory_node_ : node_id::unknown;
  const auto free = free_huge_pages(machine_.files, pool_node, huge_page_bytes_);
  if (!free || *free < wanted) {
    return fail(errc::no_huge_pages, operation::admit,
                "asked for " + std::to_string(wanted) + " huge pages of " + std::to_string(huge_page_bytes_ >> 20U) +
                    " MiB, but " + std::to_string(free.value_or(0)) +
                    " are free: raise nr_hugepages, or ask for thp or base pages");
  }
  return {};
}

failure allocation::map() {
  const bool may_be_huge = what_.pages == page_policy::automatic || what_.pages == page_policy::thp;
  if (may_be_huge) {
    const std::size_t thp = thp_page_bytes(machine_.files);
    huge_page_bytes_ = what_.size_bytes >= thp ? thp : 0;
    if (huge_page_bytes_ == 0) {
      state_->pages.reason = thp == 0 ? "this kernel has no transparent huge pages" : "shorter than one huge page";
    }
  }
  platform::map_options options;
  options.size_bytes = round_up(what_.size_bytes, is_hugetlb_ ? huge_page_bytes_ : base_page_bytes_);
  options.alignment_bytes = std::max(base_page_bytes_, huge_page_bytes_);
  options.huge_page_size_bytes = is_hugetlb_ ? huge_page_bytes_ : 0;

  // Decided before there is anything to undo.
  if (pin_plan_ == pin_kind::cuda) {
    const auto chunk =
        chunk_length({what_.chunk_bytes, what_.block_stride_bytes,
                      options.huge_page_size_bytes != 0 ? options.huge_page_size_bytes : base_page_bytes_,
                      registration_limit_bytes(machine_.files)},
                     options.size_bytes);
    if (!chunk) {
      return fail(errc::invalid_option, operation::pin,
                  "a block of " + std::to_string(what_.block_stride_bytes) +
                      " bytes is longer than one registration may be here: see registration limits in README");
    }
    chunk_bytes_ = *chunk;
  }
  platform::mapping made;
  if (const auto error = machine_.memory.map(options, made)) {
    const bool is_full = error == boost::system::errc::not_enough_memory;
    return fail(is_full && is_hugetlb_ ? errc::no_huge_pages
                : is_full              ? errc::out_of_memory
                                       : errc::map_failed,
                operation::map,
                "the kernel refused to map " + std::to_string(options.size_bytes) + " bytes: " + error.message(),
                error);
  }
  state_->adopt(made);
  if (const auto error = machine_.memory.advise(made.data, made.size_bytes, platform::advice::dont_fork)) {
    return fail(errc::map_failed, operation::map,
                "the kernel refused to keep the memory from forked children: " + error.message(), error);
  }
  advise_page_kind();
  populate_by_call_ = is_hugetlb_ || what_.populate == populate_mode::fast;
  piece_bytes_ = round_up(piece_bytes_min, std::max(huge_page_bytes_, base_page_bytes_));
  return {};
}

// Not getting the page kind is no failure: note_page_kind() looks at what came of it.
void allocation::advise_page_kind() {
  if (is_hugetlb_) {
    return;
  }
  const auto what = huge_page_bytes_ != 0 ? platform::advice::huge_pages : platform::advice::no_huge_pages;
  const auto error = machine_.memory.advise(state_->mapped.data, mapped_bytes(), what);
  if (error && huge_page_bytes_ != 0) {
    state_->pages.reason = "the kernel refused huge pages: " + error.message();
    huge_page_bytes_ = 0;
  }
}

// Before the pages exist: 15 us, where locking resident base pages takes 50 ms a GiB.
failure allocation::lock() {
  if (pin_plan_ != pin_kind::mlock) {
    return {};
  }
  const auto error = machine_.memory.lock_on_fault(state_->mapped.data, mapped_bytes());
  if (!error) {
    state_->pin.obtained = pin_kind::mlock;
    state_->pin.via = pin_route::mlock;
    return {};
  }
  const bool is_limit = error.value() == ENOMEM || error.value() == EPERM || error.value() == EAGAIN;
  const std::string reason =
      "mlock refused " + std::to_string(mapped_bytes()) + " bytes: " + error.message() +
      (is_limit ? " (RLIMIT_MEMLOCK is " + std::to_string(machine_.memory.lock_limit_bytes() / 1024) +
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

failure allocation::bind() {
  bind_outcome& outcome = state_->policy;
  const bool is_placed_by_touch = workers_.pinned && workers_.node == memory_node_;
  outcome.obtained = is_placed_by_touch ? bind_kind::first_touch : bind_kind::none;
  if (what_.bind == bind_policy::none || what_.node.is_unknown()) {
    return {};
  }
  if (memory_node_ != what_.node) {
    outcome.reason = node_text(what_.node) + " gives this process no memory; the nearest that does is " +
                     (memory_node_.is_unknown() ? "unknown" : node_text(memory_node_));
  }
  if (memory_node_.is_unknown()) {
    return {};
  }
  const auto policy = is_strict() ? platform::memory_policy::bind : platform::memory_policy::prefer;
  const auto error = machine_.memory.bind(state_->mapped.data, mapped_bytes(), policy, node_set{memory_node_});
  if (!error) {
    outcome.obtained = is_strict() ? bind_kind::bind : bind_kind::prefer;
    return {};
  }
  outcome.error = error;
  outcome.reason = "the kernel refused the memory policy: " + error.message() +
                   (is_placed_by_touch ? "; the workers' first touch alone places the pages" : "");
  if (is_strict() && !is_placed_by_touch) {
    return fail(errc::policy_denied, operation::bind, outcome.reason + "; ask for bind_policy::prefer", error);
  }
  return {};
}

std::size_t allocation::piece_count() const noexcept { return (mapped_bytes() + piece_bytes_ - 1) / piece_bytes_; }

failure allocation::populate(std::size_t piece) {
  NUMAPOOL_CHECK(piece < piece_count());
  const std::size_t offset = piece * piece_bytes_;
  const std::size_t size = std::min(piece_bytes_, mapped_bytes() - offset);
  std::byte* const data = state_->mapped.data + offset;
  return populate_by_call_ ? populate_call(data, size) : touch_piece(data, size);
}

// One byte a huge page, if huge pages come; a byte a base page where they do not. Which it was is the kernel's to say.
failure allocation::touch_piece(std::byte* data, std::size_t size_bytes) {
  const std::size_t huge_part = huge_page_bytes_ == 0 ? 0 : size_bytes / huge_page_bytes_ * huge_page_bytes_;
  boost::system::error_code error;
  std::size_t done = 0;
  if (huge_part > 0) {
    error = machine_.memory.touch(data, huge_part, huge_page_bytes_);
    std::size_t huge_bytes = 0;
    if (!error && !machine_.memory.scan_huge_bytes(data, huge_part, huge_bytes) && huge_bytes == huge_part) {
      done = huge_part;
    }
  }
  if (!error && done < size_bytes) {
    error = machine_.memory.touch(data + done, size_bytes - done, base_page_bytes_);
  }
  return error
             ? fail(errc::populate_failed, operation::populate, "pages could not be touched: " + error.message(), error)
             : failure();
}

failure allocation::populate_call(std::byte* data, std::size_t size_bytes) {
  const auto error = machine_.memory.advise(data, size_bytes, platform::advice::populate_write);
  if (!error) {
    return {};
  }
  if (error == boost::system::errc::invalid_argument && !is_hugetlb_) {
    return touch_piece(data, size_bytes);  // before Linux 5.14 there is no such call
  }
  // EFAULT is what an empty hugetlb pool gives here; a touch would have been SIGBUS.
  const bool is_pool_empty = is_hugetlb_ && (error.value() == EFAULT || error.value() == ENOMEM);
  return fail(is_pool_empty ? errc::no_huge_pages
              : error == boost::system::errc::not_enough_memory ? errc::out_of_memory : errc::populate_failed,
              operation::populate, "pages could not be made resident: " + error.message(), error);
}

failure allocation::finish() {
  note_page_kind();
  if (failure why = close_population()) {
    return why;
  }
  ticket_ = {};
  const clock::time_point populated = clock::now();
  state_->timings.populate = populated - populate_started_;
  if (failure why = verify()) {
    return why;
  }
  const clock::time_point verified = clock::now();
  state_->timings.verify = verified - populated;
  if (failure why = register_with_cuda()) {
    return why;
  }
  const clock::time_point done = clock::now();
  state_->timings.register_ = done - verified;
  state_->timings.total = done - started_;
  return {};
}

// Residency, asked of the kernel once more where that is cheap: over huge pages it takes 0.04 ms a GiB. Over base
// pages, each of which was touched or populated by itself, it would take 90 ms a GiB with every mmap of the process
// waiting.
failure allocation::close_population() {
  if (state_->pages.huge_bytes != mapped_bytes()) {
    return {};
  }
  const auto missing = machine_.memory.advise(state_->mapped.data, mapped_bytes(), platform::advice::populate_write);
  if (missing && missing != boost::system::errc::invalid_argument) {
    return fail(errc::populate_failed, operation::populate, "pages could not be made resident: " + missing.message(),
                missing);
  }
  return {};
}

void allocation::note_page_kind() {
  page_outcome& pages = state_->pages;
  pages.page_size_bytes = base_page_bytes_;
  if (is_hugetlb_) {
    pages.kind = page_kind::hugetlb;
    pages.page_size_bytes = huge_page_bytes_;
    pages.huge_bytes = mapped_bytes();
    return;
  }
  std::size_t huge_bytes = 0;
  if (machine_.memory.scan_huge_bytes(state_->mapped.data, mapped_bytes(), huge_bytes) &&
      machine_.memory.read_huge_bytes(state_->mapped.data, mapped_bytes(), huge_bytes)) {
    pages.reason += pages.reason.empty() ? "the kernel does not say how many bytes are in huge pages" : "";
    return;
  }
  pages.huge_bytes = huge_bytes;
  if (huge_bytes > 0) {
    pages.kind = page_kind::thp;
    pages.page_size_bytes = huge_page_bytes_ != 0 ? huge_page_bytes_ : thp_page_bytes(machine_.files);
  } else if (huge_page_bytes_ != 0) {
    pages.reason = is_thp_never(machine_.files) ? "transparent huge pages are set to never"
                                                : "the kernel had no huge page to give";
  }
}

failure allocation::verify() {
  const bool must_know = is_strict() && state_->policy.obtained != bind_kind::bind;
  return verify_once(must_know ? verify_policy::full : what_.verify);
}

failure allocation::verify_once(verify_policy how) {
  if (how == verify_policy::off || what_.node.is_unknown()) {
    return {};
  }
  state_->placement = measure_placement(machine_, measured_range::of(*state_), how);
  const placement& found = state_->placement;
  if (!is_strict()) {
    return {};
  }
  if (found.by == witness::none) {
    // With an obtained bind the kernel itself promises; without one nobody does.
    return state_->policy.obtained == bind_kind::bind
               ? failure()
               : fail(errc::placement_not_verified, operation::verify,
                      "strict was asked, but the policy was refused and nothing here can say where the pages are",
                      found.error);
  }
  for (const pages_on_node& entry : found.by_node) {
    if (entry.node != what_.node && entry.pages > 0) {
      return fail(errc::placement_not_reached, operation::verify,
                  "strict was asked, but " + std::to_string(entry.pages) + " of " +
                      std::to_string(found.pages_checked) + " pages are on " +
                      (entry.node.is_unknown() ? "no node" : node_text(entry.node)));
    }
  }
  return {};
}

failure allocation::register_with_cuda() {
  if (pin_plan_ != pin_kind::cuda) {
    return {};
  }
  if (failure why = register_all(*state_, cuda_device_, chunk_bytes_)) {
    const bool can_never_register = why.cause == boost::system::errc::not_supported;
    return what_.pin == pin_policy::automatic && can_never_register ? lock_instead(why) : why;
  }
  state_->pin.obtained = pin_kind::cuda;
  // A long-term pin may migrate pages first (out of movable zones), so strict is checked where they are now.
  return is_strict() ? verify_once(state_->placement.verified) : failure();
}

// Some platforms have CUDA and no host registration (801, vllm-omni#6240): there mlock is the best pin to be had.
failure allocation::lock_instead(const failure& cuda) {
  state_->pin.via = pin_route::none;
  state_->pin.error = cuda.cause;
  state_->pin.reason = "no CUDA pin: " + cuda.message;
  pin_plan_ = pin_kind::mlock;
  return lock();
}

buffer allocation::take() { return buffer_state::to_buffer(std::move(state_)); }

}  // namespace numapool::memory
