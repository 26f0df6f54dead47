// SPDX-License-Identifier: Apache-2.0
// The second half of an allocation's life: populate, verify, register.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "memory/allocation.hpp"
#include "memory/kernel_pages.hpp"
#include "memory/placement.hpp"
#include "memory/registration.hpp"

namespace numapool::memory {
namespace {

// MADV_POPULATE_WRITE came with Linux 5.14, and a sandbox may deny it.
bool is_call_missing(const boost::system::error_code& error) {
  namespace code = boost::system::errc;
  return error == code::invalid_argument || error == code::function_not_supported ||
         error == code::operation_not_permitted || error == code::permission_denied;
}

}  // namespace

std::size_t allocation::piece_count() const noexcept {
  return (mapped_bytes() + piece_bytes_ - 1) / piece_bytes_;
}

failure allocation::populate(std::size_t piece, const interruption& interrupted) {
  NUMAPOOL_CHECK(piece < piece_count());
  const std::size_t offset = piece * piece_bytes_;
  const std::size_t size = std::min(piece_bytes_, mapped_bytes() - offset);
  if (failure why = fill_piece(state_->mapped.data + offset, size)) {
    return why;
  }
  if (!registration_ || !registration_->has_chunks()) {
    return {};
  }
  registration_->add_resident(piece);
  return register_ready(interrupted);
}

failure allocation::fill_piece(std::byte* data, std::size_t size_bytes) {
  const bool is_judged = gets_huge_pages() && what_.huge_page_budget.count() > 0;
  if (is_judged && are_huge_pages_slow_.load(std::memory_order_relaxed)) {
    give_up_huge_pages(data, size_bytes);
    return populate_by_call_ ? populate_call(data, size_bytes) : touch_piece(data, size_bytes);
  }
  // CPU time: whoever waits for a CPU says nothing of the pages, while compaction is work.
  const std::chrono::nanoseconds begun = machine_.threads.cpu_time();
  failure why = populate_by_call_ ? populate_call(data, size_bytes) : touch_piece(data, size_bytes);
  if (is_judged) {
    judge_huge_pages(size_bytes, machine_.threads.cpu_time() - begun);
  }
  return why;
}

bool allocation::gets_huge_pages() const noexcept {
  return huge_page_bytes_ != 0 && !is_hugetlb_;
}

// On a node whose free memory is in fragments, the kernel may compact for each huge page, at
// gigabytes a minute (TensorRT-LLM#15430). One slow piece is enough to know: each worker ends the
// one that it has, and what is left comes in base pages.
void allocation::judge_huge_pages(std::size_t size_bytes, std::chrono::nanoseconds taken) {
  constexpr std::size_t unit = 2ULL << 20U;  // that the budget is for
  const auto units = static_cast<std::int64_t>(std::max(size_bytes / unit, std::size_t{1}));
  const std::int64_t each = taken.count() / units;
  if (std::chrono::nanoseconds(each) <= what_.huge_page_budget) {
    return;
  }
  std::int64_t slowest = slowest_huge_page_ns_;
  while (each > slowest && !slowest_huge_page_ns_.compare_exchange_weak(slowest, each)) {
  }
  are_huge_pages_slow_ = true;
}

// Where the kernel refuses the advice the piece gets what comes: slow is no failure.
void allocation::give_up_huge_pages(std::byte* data, std::size_t size_bytes) {
  if (!machine_.memory.advise(data, size_bytes, platform::advice::no_huge_pages)) {
    given_up_bytes_ += size_bytes;
  }
}

failure allocation::register_ready(const interruption& interrupted) {
  if (is_registration_refused_) {
    return {};
  }
  failure why = registration_->register_ready(interrupted);
  if (why && can_do_without_cuda(why)) {
    is_registration_refused_ = true;
    return {};
  }
  return why;
}

// One byte a huge page, if huge pages come; a byte a base page where they do not. Which it was is
// the kernel's to say.
failure allocation::touch_piece(std::byte* data, std::size_t size_bytes) {
  const std::size_t huge_part =
      huge_page_bytes_ == 0 ? 0 : size_bytes / huge_page_bytes_ * huge_page_bytes_;
  boost::system::error_code error;
  std::size_t done = 0;
  if (huge_part > 0) {
    error = machine_.memory.touch(data, huge_part, huge_page_bytes_);
    std::size_t huge_bytes = 0;
    if (!error && !machine_.memory.scan_huge_bytes(data, huge_part, huge_bytes) &&
        huge_bytes == huge_part) {
      done = huge_part;
      huge_bytes_seen_ += huge_part;
    }
  }
  if (!error && done < size_bytes) {
    error = machine_.memory.touch(data + done, size_bytes - done, base_page_bytes_);
  }
  return error ? fail(errc::populate_failed, operation::populate,
                      "pages could not be touched: " + error.message(), error)
               : failure();
}

failure allocation::populate_call(std::byte* data, std::size_t size_bytes) {
  const auto error = machine_.memory.advise(data, size_bytes, platform::advice::populate_write);
  if (!error) {
    return {};
  }
  if (is_call_missing(error) && !is_hugetlb_) {
    return touch_piece(data, size_bytes);
  }
  // EFAULT is what an empty hugetlb pool gives here; a touch would have been SIGBUS.
  const bool is_pool_empty = is_hugetlb_ && (error.value() == EFAULT || error.value() == ENOMEM);
  return fail(is_pool_empty                                     ? errc::no_huge_pages
              : error == boost::system::errc::not_enough_memory ? errc::out_of_memory
                                                                : errc::populate_failed,
              operation::populate, "pages could not be made resident: " + error.message(), error);
}

failure allocation::finish(const interruption& interrupted) {
  note_page_kind();
  note_given_up_pages();
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
  if (failure why = register_with_cuda(interrupted)) {
    return why;
  }
  const clock::time_point done = clock::now();
  state_->timings.register_ =
      registration_ && registration_->has_chunks() ? registration_->busy_time() : done - verified;
  state_->timings.total = done - started_;
  return {};
}

// Residency, asked of the kernel once more where that is cheap: over huge pages it takes 0.04 ms a
// GiB. Over base pages, each of which was touched or populated by itself, it would take 90 ms a GiB
// with every mmap of the process waiting.
failure allocation::close_population() {
  if (state_->pages.huge_bytes != mapped_bytes()) {
    return {};
  }
  const auto missing =
      machine_.memory.advise(state_->mapped.data, mapped_bytes(), platform::advice::populate_write);
  if (missing && !is_call_missing(missing)) {
    return fail(errc::populate_failed, operation::populate,
                "pages could not be made resident: " + missing.message(), missing);
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
  // Where each piece found nothing but huge pages there is nothing to look for.
  std::size_t huge_bytes = huge_bytes_seen_;
  if (huge_bytes != mapped_bytes() &&
      machine_.memory.scan_huge_bytes(state_->mapped.data, mapped_bytes(), huge_bytes) &&
      machine_.memory.read_huge_bytes(state_->mapped.data, mapped_bytes(), huge_bytes)) {
    pages.reason +=
        pages.reason.empty() ? "the kernel does not say how many bytes are in huge pages" : "";
    return;
  }
  pages.huge_bytes = huge_bytes;
  if (huge_bytes > 0) {
    pages.kind = page_kind::thp;
    pages.page_size_bytes =
        huge_page_bytes_ != 0 ? huge_page_bytes_ : thp_page_bytes(machine_.files);
  } else if (huge_page_bytes_ != 0) {
    add_page_reason(is_thp_never(machine_.files) ? "transparent huge pages are set to never"
                                                 : "the kernel had no huge page to give");
  }
}

void allocation::note_given_up_pages() {
  state_->pages.given_up_bytes = given_up_bytes_;
  if (given_up_bytes_ == 0) {
    return;
  }
  add_page_reason("2 MiB of huge pages took " + std::to_string(slowest_huge_page_ns_ / 1000) +
                  " us" + ", over the budget of " + std::to_string(what_.huge_page_budget.count()) +
                  " us, so " + std::to_string(given_up_bytes_ >> 20U) +
                  " MiB were filled with base pages");
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
                      "strict was asked, but the policy was refused and nothing here can say where "
                      "the pages are",
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

failure allocation::register_with_cuda(const interruption& interrupted) {
  if (!registration_) {
    return {};
  }
  if (failure why = registration_->register_rest(interrupted)) {
    return can_do_without_cuda(why) ? lock_instead(why) : why;
  }
  state_->pin.obtained = pin_kind::cuda;
  // A long-term pin may migrate pages first (out of movable zones), so strict is checked where they
  // are now.
  return is_strict() ? verify_once(state_->placement.verified) : failure();
}

// Some platforms have CUDA and no host registration (801, vllm-omni#6240): there mlock is the best
// pin to be had.
bool allocation::can_do_without_cuda(const failure& why) const noexcept {
  return what_.pin == pin_policy::automatic && why.cause == boost::system::errc::not_supported;
}

failure allocation::lock_instead(const failure& cuda) {
  state_->pin.via = pin_route::none;
  state_->pin.error = cuda.cause;
  state_->pin.reason = "no CUDA pin: " + cuda.message;
  pin_plan_ = pin_kind::mlock;
  return lock();
}

buffer allocation::take() {
  return buffer_state::to_buffer(std::move(state_));
}

}  // namespace numapool::memory
