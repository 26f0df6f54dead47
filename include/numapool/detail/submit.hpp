// SPDX-License-Identifier: Apache-2.0
#pragma once

// The template shells of worker_pool::async_allocate and submit. Nothing here is for users.

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>
#include <numapool/detail/node_executor.hpp>
#include <numapool/detail/outstanding_work.hpp>
#include <numapool/detail/refusal.hpp>
#include <numapool/error.hpp>
#include <numapool/node.hpp>

namespace numapool::detail {

using allocation_handler =
    boost::asio::any_completion_handler<void(boost::system::error_code, buffer)>;

class allocation_task;

/// Asks all that can be refused at once; `ready` is set on success.
[[nodiscard]] failure prepare_allocation(pool_core& pool, const request& what,
                                         std::shared_ptr<allocation_task>& ready);
/// Starts it; the handler is called exactly once, never inside this call.
void start_allocation(const std::shared_ptr<allocation_task>& ready, allocation_handler handler);
/// What an allocation delivers with an error: holds no memory.
[[nodiscard]] buffer failed_buffer(failure why);

/// The workers that serve `node`, started; set on success.
[[nodiscard]] failure find_workers(pool_core& pool, node_id node, node_workers*& workers);
/// The same. Throws numapool::error.
[[nodiscard]] node_workers& workers_of(pool_core& pool, node_id node);

/// A refused allocation on its way to its handler.
template <typename Handler>
struct refused_allocation {
  Handler handler;
  boost::system::error_code error;
  buffer none;
  void operator()() { std::move(handler)(error, std::move(none)); }
};

struct initiate_allocation {
  template <typename Handler>
  void operator()(Handler&& handler, pool_core* pool, const request& what) const {
    std::shared_ptr<allocation_task> ready;
    if (const failure why = prepare_allocation(*pool, what, ready)) {
      refuse(*pool, why,
             refused_allocation<std::decay_t<Handler>>{std::forward<Handler>(handler), why.code,
                                                       failed_buffer(why)});
    } else {
      start_allocation(ready, allocation_handler(std::forward<Handler>(handler)));
    }
  }
};

template <typename Result>
struct submit_signature {
  using type = void(std::exception_ptr, Result);
};
template <>
struct submit_signature<void> {
  using type = void(std::exception_ptr);
};

/// What a function gave: its result or its exception.
template <typename Result>
struct outcome {
  std::exception_ptr error;
  std::optional<Result> value;

  template <typename Function>
  void capture(Function& function) noexcept {
    try {
      value.emplace(function());
    } catch (...) {
      error = std::current_exception();
    }
  }
  template <typename Handler>
  void deliver(Handler&& handler) {
    std::forward<Handler>(handler)(error, value ? std::move(*value) : Result());
  }
  Result take() {
    if (error) {
      std::rethrow_exception(error);
    }
    return std::move(*value);
  }
};
template <>
struct outcome<void> {
  std::exception_ptr error;

  template <typename Function>
  void capture(Function& function) noexcept {
    try {
      function();
    } catch (...) {
      error = std::current_exception();
    }
  }
  template <typename Handler>
  void deliver(Handler&& handler) {
    std::forward<Handler>(handler)(error);
  }
  void take() const {
    if (error) {
      std::rethrow_exception(error);
    }
  }
};

/// The error that a function dropped by a shutdown completes with.
[[nodiscard]] std::exception_ptr shut_down_error() noexcept;

/// The outcome on its way to its handler.
template <typename Handler, typename Result>
struct submit_completion {
  Handler handler;
  outcome<Result> done;
  void operator()() { done.deliver(std::move(handler)); }
};

/// A submitted function on its way through the queue, with the handler that waits for its outcome.
template <typename Function, typename Handler>
class submit_job {
  using result = std::invoke_result_t<Function&>;
  using executor = boost::asio::associated_executor_t<Handler, node_executor>;

 public:
  submit_job(Function function, Handler handler, const node_executor& fallback)
      : function_(std::move(function)),
        work_(boost::asio::get_associated_executor(handler, fallback)),
        handler_(std::move(handler)) {}

  void operator()() {
    outcome<result> done;
    {
      Function run(
          std::move(function_));  // destroyed here, on the worker, before the handler hears of it
      done.capture(run);
    }
    submit_completion<Handler, result> complete{std::move(handler_), std::move(done)};
    if constexpr (std::is_same_v<executor, node_executor>) {
      if (work_.executor().running_in_this_thread()) {
        complete();  // here and now: queued, a shutdown meanwhile would drop it
        return;
      }
    }
    boost::asio::dispatch(work_.executor(), std::move(complete));
  }

  // Instead of operator(), when the pool shuts down first.
  void abandon() {
    outcome<result> done;
    done.error = shut_down_error();
    submit_completion<Handler, result> complete{std::move(handler_), std::move(done)};
    if constexpr (std::is_same_v<executor, node_executor>) {
      complete();  // its executor is the one that is going away
    } else {
      boost::asio::dispatch(work_.executor(), std::move(complete));
    }
  }

 private:
  Function function_;
  outstanding_work<executor> work_;
  Handler handler_;
};

struct initiate_submit {
  template <typename Handler, typename Function>
  void operator()(Handler&& handler, pool_core* pool, node_id node, Function&& function) const {
    using handler_type = std::decay_t<Handler>;
    using function_type = std::decay_t<Function>;
    using result = std::invoke_result_t<function_type&>;
    node_workers* workers = nullptr;
    if (const failure why = find_workers(*pool, node, workers)) {
      outcome<result> refused;
      refused.error = std::make_exception_ptr(error(why));
      refuse(*pool, why,
             submit_completion<handler_type, result>{std::forward<Handler>(handler),
                                                     std::move(refused)});
    } else {
      enqueue_function(*workers, submit_job<function_type, handler_type>(
                                     std::forward<Function>(function),
                                     std::forward<Handler>(handler), executor_of(*workers)));
    }
  }
};

/// How long a caller that waits for one of these workers looks before it sleeps.
[[nodiscard]] std::chrono::nanoseconds caller_spin_of(const node_workers& workers) noexcept;

/// Where a blocking caller waits for its one job.
class wait_point {
 public:
  void signal() noexcept;
  /// Looks for `spin` before it sleeps.
  void wait(std::chrono::nanoseconds spin) noexcept;

 private:
  static constexpr int waiting = 0;
  static constexpr int signalled = 1;
  static constexpr int asleep = 2;
  std::atomic<int> state_{waiting};
};

/// A blocking submit: the job lives on the caller's stack.
template <typename Function>
struct waiting_job : job {
  explicit waiting_job(Function& to_run) : function(to_run) { execute = &execute_here; }

  static job* execute_here(job& self, action what) {
    auto& waiting = static_cast<waiting_job&>(self);
    if (what == action::run) {
      waiting.done.capture(waiting.function);
    } else {
      waiting.done.error = shut_down_error();
    }
    waiting.finished.signal();
    return nullptr;
  }

  Function& function;
  outcome<std::invoke_result_t<Function&>> done;
  wait_point finished;
};

template <typename Function>
auto submit_and_wait(pool_core& pool, node_id node, Function& function)
    -> std::invoke_result_t<Function&> {
  node_workers& workers = workers_of(pool, node);
  if (runs_here(workers)) {
    return function();
  }
  waiting_job<Function> waiting(function);
  enqueue(workers, waiting);
  waiting.finished.wait(caller_spin_of(workers));
  return waiting.done.take();
}

}  // namespace numapool::detail
