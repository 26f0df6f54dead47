// SPDX-License-Identifier: Apache-2.0
#include "blocks/pending_take.hpp"

#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>

#include "base/deadline.hpp"
#include "pool/allocation_task.hpp"

namespace numapool::blocks {

using boost::asio::any_completion_executor;

take_completion::take_completion(detail::allocation_handler handler, detail::node_workers& workers)
    : handler_(std::move(handler)),
      executor_(boost::asio::get_associated_executor(handler_,
                                                     any_completion_executor(workers.executor()))),
      completes_on_workers_(executor_ == any_completion_executor(workers.executor())),
      work_(executor_) {}

boost::asio::cancellation_slot take_completion::slot() const noexcept {
  return boost::asio::get_associated_cancellation_slot(handler_);
}

// The handler and everything it needs leave this first: it may be destroyed while the handler runs.
// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void take_completion::operator()(buffer result) noexcept {
  const boost::system::error_code error = result.why().code;
  auto work = std::move(work_);
  auto completion = [handler = std::move(handler_), error, result = std::move(result)]() mutable {
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.clear();
    }
    std::move(handler)(error, std::move(result));
  };
  if (completes_on_workers_) {
    completion();
  } else {
    boost::asio::dispatch(work.get_executor(), std::move(completion));
  }
}

// When the pool shuts down first it is abandoned instead of called.
struct zeroing_take::beginning {
  std::shared_ptr<zeroing_take> task;
  void operator()() { task->begin(); }
  void abandon() { task->complete(detail::shut_down_failure(task->what_)); }
};

zeroing_take::zeroing_take(std::shared_ptr<detail::cache_core> cache, const request& what,
                           detail::prepared_take ready, detail::allocation_handler handler)
    : zeroing(ready.found.data(), ready.found.mapped_bytes(), base::deadline_of(what.timeout)),
      cache_(std::move(cache)),
      what_(what),
      found_(std::move(ready.found)),
      workers_(*ready.workers),
      done_(std::move(handler), workers_) {}

void zeroing_take::start() {
  const auto self = std::static_pointer_cast<zeroing_take>(shared_from_this());
  auto slot = done_.slot();
  if (slot.is_connected()) {
    slot.assign([task = std::weak_ptr(self)](boost::asio::cancellation_type type) {
      const auto acted_on =
          boost::asio::cancellation_type::terminal | boost::asio::cancellation_type::total;
      const auto alive = task.lock();
      if (alive && (type & acted_on) != boost::asio::cancellation_type::none) {
        alive->is_cancelled_ = true;
        alive->stop();
      }
    });
  }
  detail::enqueue_function(workers_, beginning{self});
}

void zeroing_take::begin() {
  begun_ = clock::now();
  if (!share_on(workers_)) {  // cancelled already
    finished();
  }
}

// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void zeroing_take::finished() noexcept {
  const auto alive = shared_from_this();
  zeroing::finished();
  if (is_whole()) {
    complete({});
  } else if (is_cancelled_) {
    complete({errc::cancelled,
              operation::populate,
              what_.node,
              what_.size_bytes,
              {},
              "zeroing a buffer to be used again was cancelled; it is kept as it was"});
  } else {
    complete(detail::cache_core::zeroing_timed_out(what_));
  }
}

// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
void zeroing_take::complete(failure why) noexcept {
  if (why) {
    cache_->put_back(std::move(found_));
    done_(detail::failed_buffer(std::move(why)));
  } else {
    detail::cache_core::note_zeroing(found_, clock::now() - begun_);
    done_(std::move(found_));
  }
}

namespace {

struct missed_take {
  std::shared_ptr<detail::cache_core> cache;
  request what;
  take_completion done;
};

// Stands in for the user's handler. It has no executor and so runs on a worker, where memory may be
// given back; a cancellation reaches the allocation that is under way.
class first_try {
 public:
  explicit first_try(std::unique_ptr<missed_take> take) : take_(std::move(take)) {}

  using cancellation_slot_type = boost::asio::cancellation_slot;
  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept {
    return take_->done.slot();
  }

  void operator()(boost::system::error_code error, buffer made) {
    if (error && take_->cache->make_room(made.why())) {
      std::shared_ptr<detail::allocation_task> second;
      if (failure why = detail::prepare_allocation(take_->cache->pool(), take_->what, second)) {
        made = detail::failed_buffer(std::move(why));
      } else {
        detail::start_allocation(second, take_->done.release());
        return;
      }
    }
    take_->done(std::move(made));
  }

 private:
  std::unique_ptr<missed_take> take_;
};

}  // namespace

void start_missed(std::shared_ptr<detail::cache_core> cache, const request& what,
                  const std::shared_ptr<detail::allocation_task>& first,
                  detail::node_workers& workers, detail::allocation_handler handler) {
  auto take = std::unique_ptr<missed_take>(
      new missed_take{std::move(cache), what, take_completion(std::move(handler), workers)});
  detail::start_allocation(first, detail::allocation_handler(first_try(std::move(take))));
}

}  // namespace numapool::blocks

namespace numapool::detail {

pool_core& pool_of(cache_core& cache) noexcept {
  return cache.pool();
}

failure shut_down_failure(const request& what) {
  return {errc::pool_shut_down,
          operation::start_workers,
          what.node,
          what.size_bytes,
          {},
          "the pool shut down before the buffer was handed out"};
}

failure prepare_take(cache_core& cache, const request& what, prepared_take& ready) {
  buffer found = cache.take_kept(what);
  if (!found) {
    cache.look();
    failure why = prepare_allocation(cache.pool(), what, ready.missed);
    const auto nodes = cache.pool().nodes().nodes();
    const bool has_node = !what.node.is_unknown() || nodes.empty();
    return why ? why
               : cache.pool().find_workers(has_node ? what.node : nodes.front().id, ready.workers);
  }
  failure why = cache.pool().find_workers(found.node_requested(), ready.workers);
  if (why) {
    cache.put_back(std::move(found));
  } else {
    ready.found = std::move(found);
  }
  return why;
}

void start_take(cache_core& cache, const request& what, prepared_take ready,
                allocation_handler handler) {
  if (ready.found) {
    std::make_shared<blocks::zeroing_take>(cache.shared_from_this(), what, std::move(ready),
                                           std::move(handler))
        ->start();
  } else {
    blocks::start_missed(cache.shared_from_this(), what, ready.missed, *ready.workers,
                         std::move(handler));
  }
}

}  // namespace numapool::detail
