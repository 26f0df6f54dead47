// SPDX-License-Identifier: Apache-2.0
#include "pool/allocation_task.hpp"

#include <utility>

#include <boost/asio/dispatch.hpp>

#include "base/deadline.hpp"
#include "memory/buffer_state.hpp"

namespace numapool::detail {
namespace {

failure shut_down_failure(const request& what) {
  return {errc::pool_shut_down,
          operation::start_workers,
          what.node,
          what.size_bytes,
          {},
          "the pool shut down before the allocation began"};
}

}  // namespace

struct allocation_task::resolving {
  std::shared_ptr<allocation_task> task;
  void operator()() {
    target where;
    if (failure why = task->pool_.resolve(task->what_, task->route_, where)) {
      task->complete_with(std::move(why));
      return;
    }
    task->take(where);
    task->enqueue_beginning();
  }
  void abandon() { task->complete_with(shut_down_failure(task->what_)); }
};

struct allocation_task::beginning {
  std::shared_ptr<allocation_task> task;
  void operator()() { task->begin(); }
  void abandon() { task->complete_with(shut_down_failure(task->what_)); }
};

allocation_task::allocation_task(pool_core& pool, const request& what, numapool::route route)
    : pool_(pool), what_(what), route_(route) {}

// A device's node is asked for on a worker: the question may load and initialise CUDA, which takes
// seconds.
failure allocation_task::prepare() {
  must_resolve_ =
      route_ == numapool::route::node_workers && what_.node.is_unknown() && what_.device;
  if (must_resolve_) {
    const auto nodes = pool_.nodes().nodes();
    return pool_.find_workers(nodes.empty() ? node_id::unknown : nodes.front().id, workers_);
  }
  target where;
  failure why = pool_.resolve(what_, route_, where);
  if (!why) {
    take(where);
  }
  return why;
}

void allocation_task::take(const target& where) {
  what_ = where.what;
  node_source_ = where.source;
  workers_ = where.workers;
}

void allocation_task::start(allocation_handler handler) {
  handler_.swap(handler);  // its move assignment recurses without end in Boost 1.81
  const boost::asio::any_completion_executor fallback(workers_->executor());
  const auto executor = boost::asio::get_associated_executor(handler_, fallback);
  completes_on_workers_ = executor == fallback;
  work_.emplace(executor);
  listen_for_cancellation();
  if (must_resolve_) {
    enqueue_function(*workers_, resolving{shared_from_this()});
  } else {
    enqueue_beginning();
  }
}

void allocation_task::enqueue_beginning() {
  counts_ = &pool_.counts_of(*workers_);
  counts_->waiting.fetch_add(1, std::memory_order_relaxed);
  enqueue_function(*workers_, beginning{shared_from_this()});
}

void allocation_task::listen_for_cancellation() {
  auto slot = boost::asio::get_associated_cancellation_slot(handler_);
  if (slot.is_connected()) {
    slot.assign([task = weak_from_this()](boost::asio::cancellation_type type) {
      const auto acted_on =
          boost::asio::cancellation_type::terminal | boost::asio::cancellation_type::total;
      if ((type & acted_on) == boost::asio::cancellation_type::none) {
        return;
      }
      if (const auto alive = task.lock()) {
        alive->is_cancelled_.store(true, std::memory_order_relaxed);
      }
    });
  }
}

void allocation_task::begin() {
  deadline_ = base::deadline_of(what_.timeout);
  const memory::worker_facts facts{workers_->node(), workers_->running(), workers_->all_pinned(),
                                   node_source_};
  allocation_.emplace(memory::surroundings{pool_.machine(), pool_.nodes(), pool_.admission(),
                                           pool_.options().reserve_bytes},
                      what_, route_, facts);
  failure why = interruption();
  if (!why) {
    why = allocation_->prepare();
  }
  if (why) {
    complete_with(std::move(why));
    return;
  }
  self_ = shared_from_this();
  workers_->share(*this, allocation_->piece_count());
}

bool allocation_task::run_piece(std::size_t piece) noexcept {
  failure why = interruption();
  if (!why) {
    why = allocation_->populate(piece, [this] { return interruption(); });
  }
  if (why) {
    fail(std::move(why));
    return false;
  }
  return true;
}

// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void allocation_task::finished() noexcept {
  const std::shared_ptr<allocation_task> alive = std::move(self_);
  failure why;
  {
    const base::lock_guard lock(mutex_);
    why = std::move(why_);
  }
  if (!why) {
    why = interruption();
  }
  if (!why) {
    why = allocation_->finish([this] { return interruption(); });
  }
  if (why) {
    complete_with(std::move(why));
  } else {
    buffer result = allocation_->take();
    log_degradations(result);
    complete(std::move(result));
  }
}

void allocation_task::log_degradations(const buffer& result) const {
  const std::string whose =
      to_string(result.node_requested()) + ", " + std::to_string(result.size_bytes()) + " bytes: ";
  for (const std::string* reason :
       {&result.pages().reason, &result.policy().reason, &result.pin().reason}) {
    if (!reason->empty()) {
      pool_.log(whose + *reason);
    }
  }
}

void allocation_task::fail(failure why) noexcept {
  const base::lock_guard lock(mutex_);
  if (!why_) {
    why_ = std::move(why);
  }
}

failure allocation_task::interruption() {
  if (is_cancelled_.load(std::memory_order_relaxed)) {
    return {errc::cancelled,
            operation::populate,
            what_.node,
            what_.size_bytes,
            {},
            "the allocation was cancelled; everything was undone"};
  }
  if (clock::now() > deadline_) {
    return {errc::timed_out,
            operation::populate,
            what_.node,
            what_.size_bytes,
            {},
            "the allocation took longer than its timeout of " +
                std::to_string(what_.timeout.count()) + " ms; everything was undone"};
  }
  return {};
}

// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void allocation_task::complete_with(failure why) noexcept {
  allocation_.reset();  // undone before the handler hears of it
  complete(failed_buffer(std::move(why)));
}

// The handler and everything it needs leave the task first: it may be destroyed while the handler
// runs.
// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void allocation_task::complete(buffer result) noexcept {
  const boost::system::error_code error = result.why().code;
  allocation_.reset();
  if (counts_ != nullptr) {
    (error ? counts_->failed : counts_->done).fetch_add(1, std::memory_order_relaxed);
    counts_->waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  auto work = std::move(*work_);
  auto completion = [handler = std::move(handler_), error, result = std::move(result)]() mutable {
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.clear();
    }
    std::move(handler)(error, std::move(result));
  };
  if (completes_on_workers_) {
    completion();  // on a worker; or abandoned by shutdown(), and the workers that it would run on
                   // take no more
  } else {
    boost::asio::dispatch(work.get_executor(), std::move(completion));
  }
}

}  // namespace numapool::detail
