// SPDX-License-Identifier: Apache-2.0
//
// Goal: an allocation completes once, on the token's executor, never inside the initiating call,
// under every Asio token; a result that nobody takes frees itself.
// Method: pools over simulated machines; coroutines on an io_context that the test runs itself.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/with_details.hpp>

#include "support/pool_fixture.hpp"

namespace numapool {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using test::ask;
using test::failure_of;
using test::fake_machine;
using test::held_worker;
using test::machine_plan;
using test::mib;
using test::one_worker;
using test::seam_call;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

// Runs a coroutine to its end on an io_context of its own and hands on what it throws.
template <typename Coroutine>
void run(Coroutine&& coroutine) {
  asio::io_context context;
  std::exception_ptr thrown;
  asio::co_spawn(context, std::forward<Coroutine>(coroutine),
                 [&](const std::exception_ptr& why) { thrown = why; });
  context.run();
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

// ---- tokens

TEST(AsyncAllocate, CallsBackOnAWorkerOfTheNode) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  std::promise<std::pair<node_id, buffer>> delivered;
  pool->async_allocate(ask(node_1), [&](const error_code& error, buffer made) {
    EXPECT_FALSE(error);
    EXPECT_TRUE(pool->executor(node_1).running_in_this_thread());
    delivered.set_value({machine.threads().current_node(), std::move(made)});
  });
  const auto [where, made] = delivered.get_future().get();
  EXPECT_EQ(where, node_1);
  EXPECT_EQ(made.node_reached(), node_1);
}

TEST(AsyncAllocate, FulfilsAFutureOrThrowsFromIt) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  std::future<buffer> fine = pool->async_allocate(ask(node_0), asio::use_future);
  std::future<buffer> wrong = pool->async_allocate(ask(node_0, 0), asio::use_future);
  EXPECT_EQ(fine.get().node_reached(), node_0);
  try {
    static_cast<void>(wrong.get());
    ADD_FAILURE();
  } catch (const boost::system::system_error& thrown) {
    EXPECT_EQ(thrown.code(), errc::zero_size);
  }
}

TEST(AsyncAllocate, IsAwaitedWithTheRequestWrittenInsideTheExpression) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  run([&]() -> asio::awaitable<void> {
    const buffer made = co_await pool->async_allocate({.size_bytes = 2 * mib,
                                                       .node = node_1,
                                                       .pin = pin_policy::none,
                                                       .verify = verify_policy::full},
                                                      asio::use_awaitable);
    EXPECT_EQ(made.node_reached(), node_1);
    EXPECT_EQ(made.placement().verified, verify_policy::full);
    bool threw = false;
    try {
      static_cast<void>(co_await pool->async_allocate({.size_bytes = 1, .node = node_id(9)},
                                                      asio::use_awaitable));
    } catch (const boost::system::system_error& thrown) {
      threw = thrown.code() == errc::unknown_node;
    }
    EXPECT_TRUE(threw);
  });
}

TEST(AsyncAllocate, GivesATupleOfTheErrorAndABufferThatSaysWhy) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  run([&]() -> asio::awaitable<void> {
    auto [error, none] =
        co_await pool->async_allocate(ask(node_0, 0), asio::as_tuple(asio::use_awaitable));
    EXPECT_EQ(error, errc::zero_size);
    EXPECT_EQ(none.why().code, errc::zero_size);
    EXPECT_FALSE(none.why().message.empty());
  });
}

// What a code alone cannot tell: the step, the node, the bytes, and what the kernel said.
void expect_details(const failure& why) {
  EXPECT_EQ(why.code, errc::map_failed);
  EXPECT_EQ(why.operation, operation::map);
  EXPECT_EQ(why.node, node_1);
  EXPECT_EQ(why.size_bytes, 4 * mib);
  EXPECT_EQ(why.cause.value(), EAGAIN);
  EXPECT_THAT(why.message, testing::HasSubstr(std::to_string(4 * mib) + " bytes"));
}

struct refusing_machine {
  refusing_machine() { machine.faults().fail_all(seam_call::map, EAGAIN); }
  void refuse_no_more() { machine.faults().reset(); }
  fake_machine machine{machine_plan::two_nodes()};
};

TEST(WithDetails, AFutureThrowsAll) {
  refusing_machine refusing;
  const auto pool = refusing.machine.make_pool();
  std::future<buffer> wrong = pool->async_allocate(ask(node_1), with_details(asio::use_future));
  expect_details(failure_of([&] { static_cast<void>(wrong.get()); }));
  refusing.refuse_no_more();
  std::future<buffer> fine = pool->async_allocate(ask(node_1), with_details(asio::use_future));
  EXPECT_EQ(fine.get().node_reached(), node_1);
}

TEST(WithDetails, AnAwaitableThrowsAllAndResumesOnItsOwnContext) {
  refusing_machine refusing;
  const auto pool = refusing.machine.make_pool();
  run([&]() -> asio::awaitable<void> {
    const auto executor = co_await asio::this_coro::executor;
    failure why;
    try {
      static_cast<void>(co_await pool->async_allocate({.size_bytes = 4 * mib, .node = node_1},
                                                      with_details(asio::use_awaitable)));
    } catch (const error& thrown) {
      why = thrown.why();
    }
    expect_details(why);
    refusing.refuse_no_more();
    const buffer made =
        co_await pool->async_allocate(ask(node_1), with_details(asio::use_awaitable));
    EXPECT_EQ(made.node_reached(), node_1);
    EXPECT_TRUE(executor.target<asio::io_context::executor_type>()->running_in_this_thread());
  });
}

TEST(WithDetails, AHandlerGetsAnExceptionPointerAndADeferredOneWorksToo) {
  refusing_machine refusing;
  const auto pool = refusing.machine.make_pool();
  std::promise<std::exception_ptr> delivered;
  auto token = with_details([&](std::exception_ptr thrown, const buffer& none) {
    EXPECT_EQ(none.why().code, errc::map_failed);
    delivered.set_value(std::move(thrown));
  });
  pool->async_allocate(ask(node_1), token);
  auto thrown = delivered.get_future().get();
  expect_details(failure_of([&] { std::rethrow_exception(thrown); }));
  auto deferred = pool->async_allocate(ask(node_1), with_details(asio::deferred));
  auto later = std::move(deferred)(asio::use_future);
  expect_details(failure_of([&] { static_cast<void>(later.get()); }));
}

// A context runs its handlers in the order of their posts: after so many turns, whatever the
// handlers of now have posted has run too.
void after_turns(const asio::any_io_executor& executor, int turns, std::function<void()> then) {
  asio::post(executor, [executor, turns, then = std::move(then)]() mutable {
    if (turns == 0) {
      then();
    } else {
      after_turns(executor, turns - 1, std::move(then));
    }
  });
}

TEST(WithDetails, PassesACancellationOn) {
  using namespace asio::experimental::awaitable_operators;
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  held_worker busy(*pool, node_0);
  run([&]() -> asio::awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const auto win = [&]() -> asio::awaitable<void> {
      asio::steady_timer timer(executor, std::chrono::milliseconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      after_turns(executor, 8, [&] { busy.let_go(); });
    };
    const auto result =
        co_await (pool->async_allocate(ask(node_0), with_details(asio::use_awaitable)) || win());
    EXPECT_EQ(result.index(), 1U);
  });
  EXPECT_EQ(machine.memory().mappings_made(), 0U) << "it was cancelled before it began";
}

TEST(AsyncAllocate, StartsADeferredOneWhenItIsCalledAndKeepsTheRequestUntilThen) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  auto deferred = pool->async_allocate(request{.size_bytes = mib, .node = node_1}, asio::deferred);
  EXPECT_EQ(machine.threads().live(), 0U) << "nothing has started";
  std::promise<buffer> delivered;
  std::move(deferred)([&](const error_code& error, buffer made) {
    EXPECT_FALSE(error);
    delivered.set_value(std::move(made));
  });
  EXPECT_EQ(delivered.get_future().get().size_bytes(), mib);
}

TEST(AsyncAllocate, IsAwaitedTwoAtATime) {
  using namespace asio::experimental::awaitable_operators;
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  run([&]() -> asio::awaitable<void> {
    auto [first, second] = co_await (pool->async_allocate(ask(node_0), asio::use_awaitable) &&
                                     pool->async_allocate(ask(node_1), asio::use_awaitable));
    EXPECT_EQ(first.node_reached(), node_0);
    EXPECT_EQ(second.node_reached(), node_1);
  });
}

TEST(AsyncAllocate, LosesARaceWithoutATrace) {
  using namespace asio::experimental::awaitable_operators;
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  held_worker busy(*pool, node_0);  // so that the timer wins
  run([&]() -> asio::awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const auto win = [&]() -> asio::awaitable<void> {
      asio::steady_timer timer(executor, std::chrono::milliseconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      // The loser, cancelled by then, completes only when its worker is free.
      after_turns(executor, 8, [&] { busy.let_go(); });
    };
    const auto result = co_await (pool->async_allocate(ask(node_0), asio::use_awaitable) || win());
    EXPECT_EQ(result.index(), 1U);
  });
  EXPECT_EQ(machine.memory().mappings_made(), 0U) << "it was cancelled before it began";
}

TEST(AsyncAllocate, FreesWhatNobodyTakes) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  pool->async_allocate(ask(node_0), asio::detached);
  { static_cast<void>(pool->async_allocate(ask(node_0), asio::use_future)); }
  pool->async_allocate(ask(node_0), [](const error_code&, const buffer&) {});
  pool->drain();
  EXPECT_EQ(machine.memory().mappings_made(), 3U);
  EXPECT_EQ(machine.memory().mappings(), 0U);
}

// ---- where and when it completes

TEST(Completion, RunsOnTheHandlersContextWhichDoesNotRunDryMeanwhile) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  asio::io_context context;
  bool completed = false;
  held_worker busy(*pool, node_0);
  pool->async_allocate(
      ask(node_0), asio::bind_executor(context, [&](const error_code& error, const buffer& made) {
        EXPECT_FALSE(error);
        EXPECT_TRUE(static_cast<bool>(made));
        EXPECT_TRUE(context.get_executor().running_in_this_thread());
        completed = true;
      }));
  EXPECT_EQ(context.poll(), 0U);
  EXPECT_FALSE(context.stopped()) << "the allocation counts as the context's work";
  busy.let_go();
  context.run();
  EXPECT_TRUE(completed);
}

TEST(Completion, OfAnErrorRunsOnTheHandlersContextToo) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (const request& wrong : {ask(node_0, 0), ask(node_id(9))}) {
    asio::io_context context;
    error_code told;
    pool->async_allocate(wrong,
                         asio::bind_executor(context, [&](const error_code& error, const buffer&) {
                           EXPECT_TRUE(context.get_executor().running_in_this_thread());
                           told = error;
                         }));
    context.run();
    EXPECT_TRUE(told == errc::zero_size || told == errc::unknown_node);
  }
}

TEST(Completion, RunsOnAStrandOverTheExecutor) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  auto strand = asio::make_strand(pool->executor(node_0));
  int completed = 0;  // not atomic: the strand keeps them apart
  for (int i = 0; i < 20; ++i) {
    pool->async_allocate(ask(node_0, mib),
                         asio::bind_executor(strand, [&](const error_code& error, const buffer&) {
                           EXPECT_FALSE(error);
                           ++completed;
                         }));
  }
  pool->submit(
      node_0, [] { return 1; },
      asio::bind_executor(strand, [&](const std::exception_ptr&, int one) { completed += one; }));
  pool->drain();
  EXPECT_EQ(completed, 21);
}

// The handler would run inside the call if the call ran it itself: a dispatching executor lets it.
TEST(Completion, NeverRunsInsideTheInitiatingCall) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (const request& what :
       {ask(node_0), ask(node_0, 0), ask(node_id(9)), ask(node_id::unknown)}) {
    for (const bool is_on_worker : {false, true}) {
      std::latch completed(1);
      thread_local bool is_initiating = false;
      const auto initiate = [&] {
        is_initiating = true;
        pool->async_allocate(what, [&](const error_code&, const buffer&) {
          EXPECT_FALSE(is_initiating);
          completed.count_down();
        });
        is_initiating = false;
      };
      if (is_on_worker) {
        pool->submit(node_0, initiate);
      } else {
        initiate();
      }
      completed.wait();
    }
  }
}

TEST(Completion, MayStartTheNextAllocation) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  std::promise<int> ended;
  struct chain {
    worker_pool& pool;
    std::promise<int>& ended;
    int left;
    void operator()(const error_code& error, const buffer& made) {
      EXPECT_FALSE(error);
      EXPECT_TRUE(static_cast<bool>(made));
      if (left == 0) {
        ended.set_value(0);
      } else {
        pool.async_allocate(ask(node_id(static_cast<unsigned>(left) % 2), mib),
                            chain{pool, ended, left - 1});
      }
    }
  };
  pool->async_allocate(ask(node_0, mib), chain{*pool, ended, 20});
  EXPECT_EQ(ended.get_future().get(), 0);
}

// ---- submit

TEST(AsyncSubmit, CarriesResultsAndExceptionsToEveryToken) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const auto where = [&machine] {
    return machine.threads().current_node();
  };
  const auto throws = []() -> int {
    throw std::out_of_range("mine");
  };
  EXPECT_EQ(pool->submit(node_1, where, asio::use_future).get(), node_1);
  EXPECT_THROW(static_cast<void>(pool->submit(node_1, throws, asio::use_future).get()),
               std::out_of_range);
  std::promise<std::exception_ptr> called;
  pool->submit(node_1, throws,
               [&](std::exception_ptr thrown, int) { called.set_value(std::move(thrown)); });
  EXPECT_THROW(std::rethrow_exception(called.get_future().get()), std::out_of_range);
  run([&]() -> asio::awaitable<void> {
    EXPECT_EQ(co_await pool->submit(node_1, where, asio::use_awaitable), node_1);
    co_await pool->submit(
        node_0, [] {}, asio::use_awaitable);
    bool threw = false;
    try {
      static_cast<void>(co_await pool->submit(node_0, throws, asio::use_awaitable));
    } catch (const std::out_of_range&) {
      threw = true;
    }
    EXPECT_TRUE(threw);
  });
  EXPECT_EQ(failure_of([&] { pool->submit(node_id(9), where, asio::use_future).get(); }).code,
            errc::unknown_node);
}

TEST(AsyncSubmit, DestroysTheFunctionOnTheWorkerBeforeTheHandlerHears) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  struct notes_its_end {
    explicit notes_its_end(fake_machine& of) : machine(&of) {}
    notes_its_end(notes_its_end&& other) noexcept
        : machine(std::exchange(other.machine, nullptr)), ended(other.ended) {}
    notes_its_end& operator=(notes_its_end&&) = delete;
    ~notes_its_end() {
      if (machine != nullptr) {
        *ended = machine->threads().current_node();
      }
    }
    void operator()() const {}
    fake_machine* machine;
    node_id* ended = nullptr;
  };
  node_id ended;
  notes_its_end function(machine);
  function.ended = &ended;
  std::promise<node_id> heard;
  pool->submit(node_1, std::move(function),
               [&](const std::exception_ptr&) { heard.set_value(ended); });
  EXPECT_EQ(heard.get_future().get(), node_1);
}

TEST(AsyncSubmit, KeepsTheHandlersContextRunning) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  asio::io_context context;
  int result = 0;
  pool->submit(
      node_0, [] { return 3; },
      asio::bind_executor(context, [&](const std::exception_ptr&, int value) {
        EXPECT_TRUE(context.get_executor().running_in_this_thread());
        result = value;
      }));
  context.run();
  EXPECT_EQ(result, 3);
}

}  // namespace
}  // namespace numapool
