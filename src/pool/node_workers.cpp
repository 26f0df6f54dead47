// SPDX-License-Identifier: Apache-2.0
#include "pool/node_workers.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/failures.hpp"
#include "base/spin.hpp"

namespace numapool::detail {
namespace {

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
void abandon_job(job& unused) noexcept {
  job_queue::abandon(unused);
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
std::chrono::nanoseconds caller_spin_of(const node_workers& workers) noexcept {
  return workers.caller_spin();
}

namespace {

void drop(job& dropped) noexcept {
  if (job* const unused = dropped.execute(dropped, job::action::drop)) {
    job_queue::abandon(*unused);
  }
}

}  // namespace

node_workers::node_workers(platform::platform& machine, boost::asio::execution_context& context,
                           workers_options options)
    : machine_(machine), context_(context), options_(std::move(options)) {
  NUMAPOOL_CHECK(options_.wanted > 0);
}

node_workers::~node_workers() {
  const base::lock_guard lock(mutex_);
  NUMAPOOL_CHECK(threads_.empty() && shared_.empty());
}

failure node_workers::start() {
  if (is_ready_) {
    return {};
  }
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
  is_ready_ = !is_stopping_;
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
  {
    const base::lock_guard lock(mutex_);
    is_stopping_ = true;
    is_ready_ = false;
  }
  job_list dropped;
  queue_.close(dropped);
  sleepers_.wake_all();
  while (!dropped.empty()) {
    drop(dropped.pop());
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

void node_workers::enqueue(job& ready) noexcept {
  if (queue_.push(ready, runs_here())) {
    sleepers_.wake();
  } else {
    drop(ready);
  }
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
    ++shared_count_;
    ++with_pieces_;
  }
  // The caller goes on with a piece itself; a worker more would find nothing, or take the only
  // piece and leave it idle.
  for (std::size_t helpers = std::min<std::size_t>(pieces, options_.wanted) - 1; helpers > 0;
       --helpers) {
    sleepers_.wake();
  }
}

bool node_workers::runs_here() const noexcept {
  return this_threads_workers == this;
}

void node_workers::wait_idle() {
  base::lock_guard lock(mutex_);
  is_idle_awaited_ = true;  // and stays so: a pool that was drained once is drained again
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
  stats.jobs_waiting = queue_.waiting();
}

// Functions and pieces in turn, so that neither waits for all of the other.
void node_workers::run() noexcept {
  this_threads_workers = this;
  check_pinning();
  bool piece_is_next = false;
  bool one_ended = false;  // and the queue does not know yet
  job* used = nullptr;
  for (;;) {
    if (with_pieces_ != 0 && (piece_is_next || queue_.looks_empty())) {
      if (std::exchange(one_ended, false)) {
        queue_.end_one(std::exchange(used, nullptr));
      }
      piece_is_next = false;
      if (try_run_piece()) {
        continue;
      }
    }
    job* const next = one_ended ? queue_.pop_next(used) : queue_.pop_first();
    one_ended = next != nullptr;
    used = nullptr;
    if (next != nullptr) {
      used = run_job(*next);
      piece_is_next = true;
    } else if (!wait_for_work()) {
      return;
    }
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

job* node_workers::run_job(job& next) noexcept {
  if (is_stopping_) {
    return next.execute(next, job::action::drop);
  }
  job* const used = next.execute(next, job::action::run);
  jobs_done_.fetch_add(1, std::memory_order_relaxed);
  return used;
}

bool node_workers::try_run_piece() {
  const base::lock_guard lock(mutex_);
  piecewise_work* const work = next_work();
  if (work == nullptr) {
    return false;
  }
  ++busy_;
  run_piece(*work);
  --busy_;
  return true;
}

void node_workers::run_piece(piecewise_work& work) {
  const std::size_t piece = work.next_++;
  with_pieces_ -= work.next_ == work.count_ ? 1 : 0;
  ++work.running_;
  mutex_.unlock();
  const bool go_on = work.run_piece(piece);
  mutex_.lock();
  --work.running_;
  if (!go_on) {
    leave_rest(work);
  }
  if (work.next_ == work.count_ && work.running_ == 0) {
    end_work(work);
    mutex_.unlock();
    work.finished();
    mutex_.lock();
  }
}

void node_workers::leave_rest(piecewise_work& work) {
  with_pieces_ -= work.next_ < work.count_ ? 1 : 0;
  work.next_ = work.count_;
}

void node_workers::end_work(piecewise_work& work) {
  std::erase(shared_, &work);
  --shared_count_;
  if (is_stopping_) {
    sleepers_.wake_all();  // those who waited for this work to end may end now
  }
}

// False: this thread is to end.
bool node_workers::wait_for_work() {
  tell_if_idle();
  if (may_end()) {
    return false;
  }
  if (!spin_for_work()) {
    sleepers_.sleep_unless([this] { return has_something(); });
  }
  return true;
}

bool node_workers::spin_for_work() const {
  if (options_.worker_spin.count() == 0) {
    return false;
  }
  return base::spin_until([this] { return has_something(); }, options_.worker_spin);
}

// Looked at after the queue knows that this thread's last function has ended.
void node_workers::tell_if_idle() {
  if (is_idle_awaited_) {
    const base::lock_guard lock(mutex_);
    if (is_idle()) {
      idle_.notify_all();
    }
  }
}

bool node_workers::has_something() const noexcept {
  return !queue_.looks_empty() || with_pieces_ != 0 || may_end();
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
  return shared_.empty() && busy_ == 0 && queue_.is_idle();
}

}  // namespace numapool::detail
