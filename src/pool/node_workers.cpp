// SPDX-License-Identifier: Apache-2.0
#include "pool/node_workers.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/failures.hpp"

namespace numapool::detail {
namespace {

// Jobs kept for reuse: a burst of posts allocates once, and an idle pool holds at most 1024 x 96
// bytes a node.
constexpr std::size_t unused_jobs_max = 1024;

// The workers that the calling thread is one of.
thread_local const node_workers* this_threads_workers = nullptr;

std::string thread_name(node_id node) {
  // pthread names end at 15 characters; "numapool-" leaves six, and the kernel has at most 1024
  // nodes.
  return "numapool-" + (node.is_unknown() ? std::string("any") : std::to_string(node.value()));
}

}  // namespace

job& acquire_job(node_workers& workers) {
  return workers.acquire();
}
void recycle_job(node_workers& workers, job& unused) noexcept {
  workers.recycle(unused);
}
void enqueue(node_workers& workers, job& ready) noexcept {
  workers.enqueue(ready);
}
bool runs_here(const node_workers& workers) noexcept {
  return workers.runs_here();
}
boost::asio::execution_context& context_of(node_workers& workers) noexcept {
  return workers.context();
}
node_executor executor_of(node_workers& workers) noexcept {
  return workers.executor();
}

void node_workers::job_queue::push(job& added) noexcept {
  added.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &added;
  last_ = &added;
  ++size_;
}

job& node_workers::job_queue::pop() noexcept {
  job& taken = *first_;
  first_ = taken.next;
  if (first_ == nullptr) {
    last_ = nullptr;
  }
  --size_;
  return taken;
}

node_workers::node_workers(platform::platform& machine, boost::asio::execution_context& context,
                           workers_options options)
    : machine_(machine), context_(context), options_(std::move(options)) {
  NUMAPOOL_CHECK(options_.wanted > 0);
}

node_workers::~node_workers() {
  const base::lock_guard lock(mutex_);
  NUMAPOOL_CHECK(threads_.empty() && queue_.empty() && shared_.empty());
  while (unused_ != nullptr) {
    delete std::exchange(unused_, unused_->next);
  }
}

failure node_workers::start() {
  base::lock_guard lock(mutex_);
  if (is_stopping_) {
    return {errc::pool_shut_down,
            operation::start_workers,
            options_.node,
            0,
            {},
            "the pool has shut down and takes no more work"};
  }
  if (threads_.empty()) {
    start_threads();
  }
  if (threads_.empty()) {
    return {errc::no_workers,
            operation::start_workers,
            options_.node,
            0,
            start_error_,
            "no thread could be started for " + to_string(options_.node) + ": " +
                start_error_.message()};
  }
  while (checked_ < threads_.size()) {
    lock.wait(all_checked_);  // whether they are pinned must be known before anything counts on it
  }
  return {};
}

void node_workers::start_threads() {
  start_error_.clear();
  checked_ = 0;
  pinned_ = 0;
  threads_.reserve(options_.wanted);
  for (unsigned i = 0; i < options_.wanted; ++i) {
    const std::size_t before = threads_.size();
    start_thread();
    if (threads_.size() == before) {
      break;
    }
  }
  if (threads_.size() < options_.wanted) {
    options_.log(to_string(options_.node) + ": " + std::to_string(threads_.size()) + " of " +
                 std::to_string(options_.wanted) + " threads started: " + start_error_.message());
  }
}

void node_workers::start_thread() {
  std::unique_ptr<platform::thread> started;
  const auto body = [this] {
    run();
  };
  auto error = machine_.threads.start(thread_name(options_.node), options_.cpus, body, started);
  if (error && error != boost::system::errc::resource_unavailable_try_again &&
      !options_.cpus.empty()) {
    // The mask was refused, not the thread: unpinned workers still allocate, and what they place is
    // verified.
    start_error_ = error;
    options_.log(to_string(options_.node) + ": a thread could not be pinned: " + error.message());
    error = machine_.threads.start(thread_name(options_.node), {}, body, started);
  }
  if (error) {
    start_error_ = error;
    return;
  }
  threads_.push_back(std::move(started));
}

void node_workers::stop() noexcept {
  job_queue dropped;
  {
    const base::lock_guard lock(mutex_);
    is_stopping_ = true;
    std::swap(dropped, queue_);
  }
  work_to_do_.notify_all();
  while (!dropped.empty()) {
    job& next = dropped.pop();
    next.execute(next, *this, job::action::drop);
  }
}

void node_workers::join() noexcept {
  std::vector<std::unique_ptr<platform::thread>> ending;
  {
    const base::lock_guard lock(mutex_);
    NUMAPOOL_CHECK(is_stopping_);
    ending.swap(threads_);
  }
  for (const auto& thread : ending) {
    thread->join();
  }
}

job& node_workers::acquire() {
  {
    const base::lock_guard lock(mutex_);
    if (unused_ != nullptr) {
      --unused_count_;
      return *std::exchange(unused_, unused_->next);
    }
  }
  return *new job;
}

void node_workers::recycle(job& unused) noexcept {
  {
    const base::lock_guard lock(mutex_);
    if (unused_count_ < unused_jobs_max) {
      unused.next = unused_;
      unused_ = &unused;
      ++unused_count_;
      return;
    }
  }
  delete &unused;
}

void node_workers::enqueue(job& ready) noexcept {
  {
    base::lock_guard lock(mutex_);
    if (!is_stopping_ || runs_here()) {
      queue_.push(ready);
      lock.unlock();
      work_to_do_
          .notify_one();  // not under the lock: the worker that wakes would only sleep again for it
      return;
    }
  }
  ready.execute(ready, *this, job::action::drop);
}

bool node_workers::takes_more() const {
  const base::lock_guard lock(mutex_);
  return runs_here() || (!is_stopping_ && !threads_.empty());
}

void node_workers::share(piecewise_work& work, std::size_t pieces) {
  NUMAPOOL_CHECK(pieces > 0 && runs_here());
  {
    const base::lock_guard lock(mutex_);
    shared_.push_back(&work);
    work.next_ = 0;
    work.count_ = pieces;
  }
  // The caller goes on with a piece itself; a worker more would find nothing, or take the only
  // piece and leave it idle.
  for (std::size_t helpers = std::min<std::size_t>(pieces, options_.wanted) - 1; helpers > 0;
       --helpers) {
    work_to_do_.notify_one();
  }
}

bool node_workers::runs_here() const noexcept {
  return this_threads_workers == this;
}

void node_workers::wait_idle() {
  base::lock_guard lock(mutex_);
  while (!is_idle()) {
    lock.wait(idle_);
  }
}

unsigned node_workers::running() const {
  const base::lock_guard lock(mutex_);
  return static_cast<unsigned>(threads_.size());
}

bool node_workers::all_pinned() const {
  const base::lock_guard lock(mutex_);
  return !options_.node.is_unknown() && checked_ > 0 && pinned_ == checked_;
}

void node_workers::add_to(node_stats& stats) const {
  const base::lock_guard lock(mutex_);
  stats.node = options_.node;
  stats.workers = static_cast<unsigned>(threads_.size());
  stats.workers_wanted = options_.wanted;
  stats.workers_pinned = pinned_;
  stats.start_error = start_error_;
  stats.jobs_done = jobs_done_;
  stats.jobs_waiting = queue_.size();
}

void node_workers::run() noexcept {
  this_threads_workers = this;
  check_pinning();
  base::lock_guard lock(mutex_);
  for (;;) {
    if (run_one()) {
      continue;
    }
    if (is_idle()) {
      idle_.notify_all();
    }
    if (is_stopping_ && shared_.empty()) {
      return;
    }
    lock.wait(work_to_do_);
  }
}

// What was asked for when the thread was made is not what it got: CPUs outside a cpuset are dropped
// without an error.
void node_workers::check_pinning() {
  // The policy that the process inherited (numactl --membind) would outweigh first touch. Where the
  // call is denied so was numactl's, and verification has the last word.
  static_cast<void>(machine_.threads.use_default_memory_policy());
  cpu_set mask;
  const auto error = machine_.threads.get_affinity(mask);
  const bool is_pinned = !error && !options_.cpus.empty() && mask.is_subset_of(options_.cpus);
  const base::lock_guard lock(mutex_);
  ++checked_;
  pinned_ += is_pinned ? 1 : 0;
  all_checked_.notify_all();
  if (error && !start_error_) {
    start_error_ = error;
  }
}

// Functions and pieces in turn, so that neither waits for all of the other.
bool node_workers::run_one() {
  piecewise_work* const work = !queue_.empty() && !piece_is_next_ ? nullptr : next_work();
  if (work != nullptr) {
    piece_is_next_ = false;
    run_piece(*work);
    return true;
  }
  if (!queue_.empty()) {
    piece_is_next_ = true;
    run_job();
    return true;
  }
  return false;
}

void node_workers::run_job() {
  job& next = queue_.pop();
  const auto what = is_stopping_ ? job::action::drop : job::action::run;
  ++busy_;
  mutex_.unlock();
  next.execute(next, *this, what);
  mutex_.lock();
  --busy_;
  jobs_done_ += what == job::action::run ? 1 : 0;
}

void node_workers::run_piece(piecewise_work& work) {
  const std::size_t piece = work.next_++;
  ++work.running_;
  ++busy_;
  mutex_.unlock();
  const bool go_on = work.run_piece(piece);
  mutex_.lock();
  --work.running_;
  if (!go_on) {
    work.next_ = work.count_;
  }
  if (work.next_ == work.count_ && work.running_ == 0) {
    std::erase(shared_, &work);
    if (is_stopping_) {
      work_to_do_.notify_all();  // those who waited for this work to end may end now
    }
    mutex_.unlock();
    work.finished();
    mutex_.lock();
  }
  --busy_;
}

// The one with the fewest pieces left, so that 2 MiB need not wait for 4 TiB; but each time another
// is passed over it ages by a piece, so that a stream of small ones cannot starve it.
piecewise_work* node_workers::next_work() {
  piecewise_work* best = nullptr;
  const auto rank = [](const piecewise_work& work) {
    const std::size_t left = work.count_ - work.next_;
    return left > work.passed_over_ ? left - work.passed_over_ : 0;
  };
  for (piecewise_work* const work : shared_) {
    if (work->next_ < work->count_ && (best == nullptr || rank(*work) < rank(*best))) {
      best = work;
    }
  }
  for (piecewise_work* const work : shared_) {
    if (work != best) {
      ++work->passed_over_;
    }
  }
  return best;
}

bool node_workers::is_idle() const {
  return queue_.empty() && shared_.empty() && busy_ == 0;
}

}  // namespace numapool::detail
