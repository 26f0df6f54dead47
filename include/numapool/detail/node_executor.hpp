// SPDX-License-Identifier: Apache-2.0
#pragma once

// node_executor: the Asio executor of one node's workers, and the job that it queues. Users get it
// from worker_pool::executor(); nothing else here is theirs.

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

namespace numapool {

namespace detail {

class pool_core;
class node_workers;

/// One queued function. Small functions live inside it, so that posting allocates nothing: jobs are
/// used again.
struct job {
  static constexpr std::size_t inline_bytes = 64;

  enum class action : bool { run, drop };
  job* next = nullptr;
  /// Runs or drops the function, and destroys it. Returns the job, to be used again; null where it
  /// is the submitter's own, which may be gone.
  job* (*execute)(job& self, action what) = nullptr;
  alignas(std::max_align_t) std::byte storage[inline_bytes];
};

/// An unused job; throws std::bad_alloc.
[[nodiscard]] job& acquire_job(node_workers& workers);
void abandon_job(job& unused) noexcept;  ///< instead of enqueue()
/// Queues it; a pool that has shut down drops it.
void enqueue(node_workers& workers, job& ready) noexcept;
[[nodiscard]] bool runs_here(
    const node_workers& workers) noexcept;  ///< the caller is one of these workers
[[nodiscard]] boost::asio::execution_context& context_of(node_workers& workers) noexcept;

template <typename Function>
struct stored_function {
  // It is made and run there and never moved, so that a move that could throw does no harm: those
  // of Asio's own wrappers are not declared noexcept.
  static constexpr bool is_inline =
      sizeof(Function) <= job::inline_bytes && alignof(Function) <= alignof(std::max_align_t);
  using stored = std::conditional_t<is_inline, Function, std::unique_ptr<Function>>;

  template <typename Source>
  static void store(job& into, Source&& function) {
    if constexpr (is_inline) {
      ::new (static_cast<void*>(into.storage)) stored(std::forward<Source>(function));
    } else {
      ::new (static_cast<void*>(into.storage))
          stored(std::make_unique<Function>(std::forward<Source>(function)));
    }
    into.execute = &execute;
  }

  static job* execute(job& self, job::action what) {
    stored& there = *std::launder(reinterpret_cast<stored*>(self.storage));
    Function& function = get(there);
    if (what == job::action::run) {
      function();
    } else if constexpr (requires { function.abandon(); }) {
      function.abandon();
    }
    there.~stored();
    return &self;
  }

 private:
  static Function& get(stored& there) {
    if constexpr (is_inline) {
      return there;
    } else {
      return *there;
    }
  }
};

/// A job on its way to enqueue(): given back if it does not get there.
class acquired_job {
 public:
  explicit acquired_job(node_workers& workers) : job_(&acquire_job(workers)) {}
  acquired_job(const acquired_job&) = delete;
  acquired_job& operator=(const acquired_job&) = delete;
  ~acquired_job() {
    if (job_ != nullptr) {
      abandon_job(*job_);
    }
  }
  [[nodiscard]] job& get() const noexcept { return *job_; }
  [[nodiscard]] job& release() noexcept { return *std::exchange(job_, nullptr); }

 private:
  job* job_;
};

template <typename Function>
void enqueue_function(node_workers& workers, Function&& function) {
  acquired_job ready(workers);
  stored_function<std::decay_t<Function>>::store(ready.get(), std::forward<Function>(function));
  enqueue(workers, ready.release());
}

}  // namespace detail

/// An Asio executor (Executor and execution::executor requirements) that runs functions on one
/// node's workers. Copies are cheap and equal when they name the same workers. Threads: safe. Valid
/// as long as its pool.
class node_executor {
 public:
  node_executor(const node_executor&) noexcept = default;
  node_executor& operator=(const node_executor&) noexcept = default;

  template <typename Function>
  void execute(Function&& function) const {
    if (may_run_inline_ && detail::runs_here(*workers_)) {
      std::decay_t<Function> run(std::forward<Function>(function));
      run();
      return;
    }
    detail::enqueue_function(*workers_, std::forward<Function>(function));
  }

  [[nodiscard]] bool running_in_this_thread() const noexcept {
    return detail::runs_here(*workers_);
  }
  [[nodiscard]] boost::asio::execution_context& context() const noexcept {
    return detail::context_of(*workers_);
  }

  friend bool operator==(const node_executor& a, const node_executor& b) noexcept {
    return a.workers_ == b.workers_ && a.may_run_inline_ == b.may_run_inline_;
  }
  friend bool operator!=(const node_executor& a, const node_executor& b) noexcept {
    return !(a == b);
  }

  // Asio's properties. The workers live as long as the pool, so outstanding work needs no tracking.
  [[nodiscard]] boost::asio::execution_context& query(
      boost::asio::execution::context_t) const noexcept {
    return context();
  }
  static constexpr boost::asio::execution::mapping_t query(
      boost::asio::execution::mapping_t) noexcept {
    return boost::asio::execution::mapping_t(boost::asio::execution::mapping.thread);
  }
  [[nodiscard]] boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t) const noexcept {
    return may_run_inline_
               ? boost::asio::execution::blocking_t(boost::asio::execution::blocking.possibly)
               : boost::asio::execution::blocking_t(boost::asio::execution::blocking.never);
  }
  [[nodiscard]] node_executor require(
      boost::asio::execution::blocking_t::possibly_t) const noexcept {
    return node_executor(*workers_, true);
  }
  [[nodiscard]] node_executor require(boost::asio::execution::blocking_t::never_t) const noexcept {
    return node_executor(*workers_, false);
  }

 private:
  friend class detail::pool_core;
  friend class detail::node_workers;
  node_executor(detail::node_workers& workers, bool may_run_inline) noexcept
      : workers_(&workers), may_run_inline_(may_run_inline) {}

  detail::node_workers* workers_;
  bool may_run_inline_;
};

static_assert(boost::asio::execution::is_executor<node_executor>::value);

}  // namespace numapool
