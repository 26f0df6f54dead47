// SPDX-License-Identifier: Apache-2.0
#pragma once

// How worker_pool::async_allocate and submit tell a handler that nothing was begun. Nothing here is
// for users.

#include <type_traits>
#include <utility>

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_future.hpp>

#include <numapool/detail/node_executor.hpp>
#include <numapool/detail/outstanding_work.hpp>
#include <numapool/error.hpp>

namespace numapool::detail {

/// An executor for completions that have no workers to run on.
[[nodiscard]] node_executor executor_of(node_workers& workers) noexcept;
/// Workers of the pool that take a function now: `preferred` if they do, else those that the caller
/// is one of, else any, started if need be. Null: the process has no thread for it.
[[nodiscard]] node_workers* find_teller(pool_core& pool, node_workers* preferred);
/// The workers behind an executor of this pool; null for another pool's.
[[nodiscard]] node_workers* own_workers(pool_core& pool, const node_executor& executor) noexcept;

/// A function that no shutdown leaves unrun.
template <typename Function>
struct told_function {
  Function tell;
  void operator()() { tell(); }
  void abandon() { tell(); }
};
template <typename Function>
told_function(Function) -> told_function<Function>;

/// The workers that will tell it; throws numapool::error(why) where there are none.
inline node_workers& teller_or_throw(pool_core& pool, node_workers* preferred, const failure& why) {
  node_workers* const workers = find_teller(pool, preferred);
  if (workers == nullptr) {
    throw error(why);
  }
  return *workers;
}

/// Asio's system executor, and that of a future (`use_future`), which is one with another name.
/// What is posted there needs threads that Asio starts: there may be none to be had, a forked child
/// has not its parent's, and the mere question for the context starts them.
template <typename Executor>
inline constexpr bool is_system_executor = false;
template <typename... Properties>
inline constexpr bool is_system_executor<boost::asio::basic_system_executor<Properties...>> = true;
template <typename Result, typename Blocking>
inline constexpr bool is_system_executor<boost::asio::detail::promise_executor<Result, Blocking>> =
    true;

/// Whether a function posted to it runs later, by threads that are there.
template <typename Executor>
bool runs_what_is_posted(const Executor& executor) noexcept {
  namespace asio = boost::asio;
  if constexpr (is_system_executor<Executor> ||
                !asio::can_require_v<Executor, asio::execution::blocking_t::never_t>) {
    return false;
  } else if constexpr (requires { executor.template target<asio::system_executor>(); }) {
    return executor.template target<asio::system_executor>() == nullptr;
  } else {
    return true;
  }
}

template <typename Executor, typename Completion>
void post_or_hand_on(pool_core& pool, const failure& why, Completion complete,
                     node_workers* preferred) {
  namespace asio = boost::asio;
  if constexpr (asio::can_require_v<Executor, asio::execution::blocking_t::never_t>) {
    const Executor executor =
        asio::get_associated_executor(complete.handler, asio::system_executor());
    if (runs_what_is_posted(executor)) {
      asio::post(executor, std::move(complete));
      return;
    }
  }
  node_workers& workers = teller_or_throw(pool, preferred, why);
  const Executor executor = asio::get_associated_executor(complete.handler, executor_of(workers));
  if constexpr (std::is_same_v<Executor, asio::any_completion_executor>) {
    if (executor == Executor(executor_of(workers))) {  // a type-erased handler without one
      enqueue_function(workers, told_function{std::move(complete)});
      return;
    }
  }
  auto hand_on = [work = outstanding_work<Executor>(executor),
                  complete = std::move(complete)]() mutable {
    asio::dispatch(work.executor(), std::move(complete));
  };
  enqueue_function(workers, told_function{std::move(hand_on)});
}

/// Runs `complete` where completions of its handler run, never inside this call: posted to the
/// handler's own executor, else by a worker of the pool, a `preferred` one if they do. Where there
/// is neither, nobody would ever run it: throws numapool::error(why), and `complete` is destroyed
/// unrun.
template <typename Completion>
void refuse(pool_core& pool, const failure& why, Completion complete,
            node_workers* preferred = nullptr) {
  namespace asio = boost::asio;
  struct none {};
  using executor_type = asio::associated_executor_t<decltype(complete.handler), none>;
  if constexpr (std::is_same_v<executor_type, none>) {
    enqueue_function(teller_or_throw(pool, preferred, why), told_function{std::move(complete)});
  } else if constexpr (std::is_same_v<executor_type, node_executor>) {
    const auto executor = asio::get_associated_executor(complete.handler);
    if (node_workers* const own = own_workers(pool, executor)) {
      enqueue_function(teller_or_throw(pool, own, why), told_function{std::move(complete)});
    } else {
      asio::post(executor, std::move(complete));
    }
  } else {
    post_or_hand_on<executor_type>(pool, why, std::move(complete), preferred);
  }
}

}  // namespace numapool::detail
