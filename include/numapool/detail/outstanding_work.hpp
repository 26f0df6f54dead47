// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps the context of a handler's executor from running dry while its operation is under way.
// Nothing here is for users.

#include <type_traits>
#include <utility>

#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/prefer.hpp>

namespace numapool::detail {

/// asio::executor_work_guard for either kind of executor. The guard itself takes a strand for the
/// older kind whatever is under it, and does not compile over executors that are the newer kind
/// alone, as ours (Boost 1.81).
template <typename Executor, bool IsOlder = !boost::asio::execution::is_executor<Executor>::value>
class outstanding_work {
 public:
  explicit outstanding_work(const Executor& executor)
      : executor_(boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked)) {
  }
  [[nodiscard]] const auto& executor() const noexcept { return executor_; }

 private:
  std::decay_t<decltype(boost::asio::prefer(std::declval<const Executor&>(),
                                            boost::asio::execution::outstanding_work.tracked))>
      executor_;
};
template <typename Executor>
class outstanding_work<Executor, true> {
 public:
  explicit outstanding_work(const Executor& executor) : guard_(executor) {}
  [[nodiscard]] Executor executor() const noexcept { return guard_.get_executor(); }

 private:
  boost::asio::executor_work_guard<Executor> guard_;
};

}  // namespace numapool::detail
