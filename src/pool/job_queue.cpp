// SPDX-License-Identifier: Apache-2.0
#include "pool/job_queue.hpp"

#include <utility>

#include "base/check.hpp"

namespace numapool::detail {
namespace {

// Jobs kept for reuse: a burst of posts allocates once, and an idle pool holds at most 1024 x 96
// bytes a node.
constexpr std::size_t used_jobs_max = 1024;

// One unused job of the calling thread's, so that acquire() needs no lock of its own: push() hands
// out the next. A job is memory alone, good for any queue.
struct spare_job {
  job* held = nullptr;
  spare_job() = default;
  spare_job(const spare_job&) = delete;
  spare_job& operator=(const spare_job&) = delete;
  ~spare_job() { delete held; }
};
thread_local spare_job spare;

}  // namespace

void job_list::push(job& added) noexcept {
  added.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &added;
  last_ = &added;
}

job& job_list::pop() noexcept {
  job& taken = *first_;
  first_ = taken.next;
  if (first_ == nullptr) {
    last_ = nullptr;
  }
  return taken;
}

void job_list::append(job_list& other) noexcept {
  if (other.empty()) {
    return;
  }
  (last_ == nullptr ? first_ : last_->next) = other.first_;
  last_ = other.last_;
  other.first_ = nullptr;
  other.last_ = nullptr;
}

job_queue::~job_queue() {
  const base::lock_guard outbox_lock(outbox_mutex_);
  const base::lock_guard inbox_lock(inbox_mutex_);
  NUMAPOOL_CHECK(inbox_.empty() && outbox_.empty());
  for (job_list* const unused : {&spares_, &used_}) {
    while (!unused->empty()) {
      delete &unused->pop();
    }
  }
}

job& job_queue::acquire() {
  if (spare.held != nullptr) {
    return *std::exchange(spare.held, nullptr);
  }
  {
    const base::lock_guard outbox_lock(outbox_mutex_);
    if (!used_.empty()) {
      const base::lock_guard inbox_lock(inbox_mutex_);
      spares_.append(used_);
      used_count_ = 0;
    }
  }
  {
    const base::lock_guard lock(inbox_mutex_);
    if (!spares_.empty()) {
      return spares_.pop();
    }
  }
  return *new job;
}

void job_queue::abandon(job& unused) noexcept {
  delete std::exchange(spare.held, &unused);
}

bool job_queue::push(job& added, bool always) noexcept {
  const base::lock_guard lock(inbox_mutex_);
  if (is_closed_ && !always) {
    return false;
  }
  inbox_.push(added);
  ++pushed_;
  waiting_in_.store(waiting_in_.load(std::memory_order_relaxed) + 1);
  if (spare.held == nullptr && !spares_.empty()) {
    spare.held = &spares_.pop();
  }
  return true;
}

void job_queue::close(job_list& left) noexcept {
  const base::lock_guard outbox_lock(outbox_mutex_);
  take_inbox();
  {
    const base::lock_guard inbox_lock(inbox_mutex_);
    is_closed_ = true;
  }
  ended_ += waiting_out_.load(std::memory_order_relaxed);
  waiting_out_.store(0);
  left.append(outbox_);
}

job* job_queue::pop(job* used, bool one_ended) noexcept {
  job* excess = nullptr;
  job* taken = nullptr;
  {
    const base::lock_guard lock(outbox_mutex_);
    ended_ += one_ended ? 1 : 0;
    excess = keep(used);
    if (outbox_.empty() && waiting_in_.load() != 0) {
      take_inbox();
    }
    if (!outbox_.empty()) {
      taken = &outbox_.pop();
      waiting_out_.store(waiting_out_.load(std::memory_order_relaxed) - 1,
                         std::memory_order_release);
    }
  }
  delete excess;
  return taken;
}

void job_queue::end_one(job* used) noexcept {
  job* excess = nullptr;
  {
    const base::lock_guard lock(outbox_mutex_);
    ++ended_;
    excess = keep(used);
  }
  delete excess;
}

job* job_queue::keep(job* used) noexcept {
  if (used == nullptr || used_count_ == used_jobs_max) {
    return used;
  }
  used_.push(*used);
  ++used_count_;
  return nullptr;
}

void job_queue::take_inbox() noexcept {
  const base::lock_guard lock(inbox_mutex_);
  outbox_.append(inbox_);
  waiting_out_.store(waiting_out_.load(std::memory_order_relaxed) +
                     waiting_in_.load(std::memory_order_relaxed));
  waiting_in_.store(0);
}

bool job_queue::is_idle() const {
  const base::lock_guard outbox_lock(outbox_mutex_);
  const base::lock_guard inbox_lock(inbox_mutex_);
  return pushed_ == ended_;
}

}  // namespace numapool::detail
