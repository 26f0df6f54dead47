// SPDX-License-Identifier: Apache-2.0
//
// Goal: a request that is refused at once completes exactly once, never inside the call, on the
// handler's executor or a worker, without a thread more than the pool has; where nobody could run
// the handler the call throws.
// Method: pools over simulated machines that refuse threads, have shut down, or belong to a parent;
// handlers of every kind of executor.

#include <atomic>
#include <exception>
#include <future>
#include <optional>
#include <thread>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
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
using test::machine_plan;
using test::one_worker;

constexpr node_id node_0(0);
constexpr node_id node_1(1);
constexpr node_id nowhere(9);

/// Runs what it is given at once: legal for Asio, which asks executors of handlers for
/// blocking.never only where it posts.
struct inline_executor {
  template <typename Function>
  void execute(Function&& function) const {
    std::decay_t<Function> run(std::forward<Function>(function));
    run();
  }
  friend bool operator==(inline_executor, inline_executor) noexcept { return true; }
  [[maybe_unused]] friend bool operator!=(inline_executor, inline_executor) noexcept {
    return false;
  }
};

/// What a handler was told, and where.
struct telling {
  std::promise<error_code> code;
  std::thread::id thread;
  auto handler() {
    return [this](const error_code& error, const buffer& none) {
      thread = std::this_thread::get_id();
      EXPECT_FALSE(static_cast<bool>(none));
      EXPECT_EQ(none.why().code, error);
      code.set_value(error);
    };
  }
};

TEST(Refusal, IsToldOnAWorkerWhereTheHandlerHasNoExecutor) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  telling told;
  pool->async_allocate(ask(nowhere), told.handler());
  EXPECT_EQ(told.code.get_future().get(), errc::unknown_node);
  EXPECT_NE(told.thread, std::this_thread::get_id());
  std::promise<std::exception_ptr> thrown;
  pool->submit(
      nowhere, [] {}, [&](const std::exception_ptr& why) { thrown.set_value(why); });
  const auto why = thrown.get_future().get();
  EXPECT_EQ(failure_of([&] { std::rethrow_exception(why); }).code, errc::unknown_node);
}

// Seen with `ulimit -u` and `ulimit -v`: a refusal needed a thread more, just when there was none.
TEST(Refusal, IsPostedToTheHandlersExecutorWithoutAnyThread) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(0);
  const auto pool = machine.make_pool();
  asio::io_context io;
  int told = 0;
  const auto expect = [&told](errc wanted) {
    return [&told, wanted](const error_code& error, const buffer& none) {
      ++told;
      EXPECT_EQ(error, wanted);
      EXPECT_EQ(none.why().code, wanted);
    };
  };
  pool->async_allocate(ask(nowhere), asio::bind_executor(io, expect(errc::unknown_node)));
  pool->async_allocate(ask(node_0), asio::bind_executor(io, expect(errc::no_workers)));
  pool->async_allocate(ask(node_0),
                       asio::bind_executor(asio::make_strand(io), expect(errc::no_workers)));
  pool->submit(
      node_1, [] { return 1; }, asio::bind_executor(io, [&](const std::exception_ptr& thrown, int) {
        ++told;
        EXPECT_EQ(failure_of([&] { std::rethrow_exception(thrown); }).code, errc::no_workers);
      }));
  EXPECT_EQ(told, 0) << "never inside the call";
  io.run();
  EXPECT_EQ(told, 4);
}

TEST(Refusal, IsThrownWhereNobodyCouldRunTheHandler) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(0);
  const auto pool = machine.make_pool();
  const auto unheard = std::make_shared<int>(0);
  const auto never = [unheard](const error_code&, const buffer&) {
    ADD_FAILURE();
  };
  EXPECT_EQ(failure_of([&] { pool->async_allocate(ask(node_0), never); }).code, errc::no_workers);
  EXPECT_EQ(failure_of([&] { pool->async_allocate(ask(nowhere), never); }).code,
            errc::unknown_node);
  EXPECT_EQ(failure_of([&] {
              static_cast<void>(pool->async_allocate(ask(node_0), asio::use_future));
            }).code,
            errc::no_workers);
  EXPECT_EQ(failure_of([&] {
              pool->submit(
                  node_0, [unheard] {}, [](const std::exception_ptr&) { ADD_FAILURE(); });
            }).code,
            errc::no_workers);
  // Asio's system executor would start threads.
  EXPECT_EQ(failure_of([&] {
              pool->async_allocate(ask(node_0),
                                   asio::bind_executor(asio::system_executor(), never));
            }).code,
            errc::no_workers);
  EXPECT_EQ(failure_of([&] {
              pool->async_allocate(
                  ask(node_0),
                  asio::bind_executor(asio::any_io_executor(asio::system_executor()), never));
            }).code,
            errc::no_workers);
  EXPECT_EQ(unheard.use_count(), 2) << "handlers and functions are destroyed; `never` is left";
}

TEST(Refusal, IsThrownOutOfAPoolThatHasShutDown) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  static_cast<void>(pool->executor(node_0));
  pool->shutdown();
  EXPECT_EQ(failure_of([&] {
              pool->async_allocate(ask(node_0), [](const error_code&, const buffer&) {});
            }).code,
            errc::pool_shut_down);
  asio::io_context io;
  telling told;
  pool->async_allocate(ask(node_0), asio::bind_executor(io, told.handler()));
  io.run();
  EXPECT_EQ(told.code.get_future().get(), errc::pool_shut_down);
}

// Seen in a child whose parent had had a refusal: the future never came, its thread was the
// parent's.
TEST(Refusal, IsThrownOrPostedInAForkedChild) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  static_cast<void>(pool->executor(node_0));
  machine.threads().set_generation(1);
  EXPECT_EQ(failure_of([&] {
              static_cast<void>(pool->async_allocate(ask(node_0), asio::use_future));
            }).code,
            errc::forked_child);
  EXPECT_EQ(failure_of([&] {
              static_cast<void>(pool->submit(
                  node_0, [] {}, asio::use_future));
            }).code,
            errc::forked_child);
  asio::io_context io;
  telling told;
  pool->async_allocate(ask(node_0), asio::bind_executor(io, told.handler()));
  io.run();
  EXPECT_EQ(told.code.get_future().get(), errc::forked_child);
  machine.threads().set_generation(0);
}

TEST(Refusal, IsHandedOnByAWorkerToAnExecutorThatMayRunItAtOnce) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  telling direct;
  pool->async_allocate(ask(nowhere), asio::bind_executor(inline_executor(), direct.handler()));
  EXPECT_EQ(direct.code.get_future().get(), errc::unknown_node);
  EXPECT_NE(direct.thread, std::this_thread::get_id());

  asio::io_context io;
  telling erased;
  asio::any_completion_handler<void(error_code, buffer)> bound(
      asio::bind_executor(io, erased.handler()));
  pool->async_allocate(ask(nowhere), std::move(bound));
  io.run();  // the worker may not have brought it yet, but holds work
  EXPECT_EQ(erased.code.get_future().get(), errc::unknown_node);
  EXPECT_EQ(erased.thread, std::this_thread::get_id());

  telling unbound;
  pool->async_allocate(ask(nowhere),
                       asio::any_completion_handler<void(error_code, buffer)>(unbound.handler()));
  EXPECT_EQ(unbound.code.get_future().get(), errc::unknown_node);
  EXPECT_NE(unbound.thread, std::this_thread::get_id());
}

TEST(Refusal, IsToldByTheWorkersThatTheHandlerIsBoundTo) {
  fake_machine machine(machine_plan::two_nodes());
  fake_machine other_machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const auto other = other_machine.make_pool();
  for (const node_executor& executor :
       {pool->executor(node_1), pool->executor(node_1).require(asio::execution::blocking.possibly),
        other->executor(node_1)}) {
    std::promise<bool> is_there;
    pool->async_allocate(ask(nowhere),
                         asio::bind_executor(executor, [&](const error_code&, const buffer&) {
                           is_there.set_value(executor.running_in_this_thread());
                         }));
    EXPECT_TRUE(is_there.get_future().get());
  }
}

// A handler that asks again, as completions do that keep a number of buffers in flight.
TEST(Refusal, IsToldToAWorkerWhileThePoolShutsDown) {
  for (int round = 0; round < 50; ++round) {
    fake_machine machine(machine_plan::two_nodes());
    const auto pool = machine.make_pool(one_worker());
    std::promise<void> runs;
    static thread_local bool is_inside = false;  // one of the calls, on this thread
    std::atomic<int> told = 0;
    const auto hear = [&](const error_code& error, const buffer&) {
      EXPECT_FALSE(is_inside);
      told += error == errc::pool_shut_down ? 1 : 0;
    };
    const node_executor there = pool->executor(node_0);
    asio::post(there, [&] {
      runs.set_value();
      error_code error;
      do {  // until the pool takes no more
        is_inside = true;
        pool->async_allocate(ask(node_0), [&](const error_code& why, const buffer&) {
          EXPECT_FALSE(is_inside);
          EXPECT_TRUE(!why || why == errc::pool_shut_down);
        });
        is_inside = false;
        try {
          static_cast<void>(pool->executor(node_1));
        } catch (const numapool::error& thrown) {
          error = thrown.code();
        }
      } while (!error);
      is_inside = true;
      pool->async_allocate(ask(node_0), hear);
      pool->async_allocate(ask(node_1), asio::bind_executor(there, hear));
      is_inside = false;
    });
    runs.get_future().wait();
    pool->shutdown();
    EXPECT_EQ(told, 2);
  }
}

TEST(Drain, WaitsForRefusalsThatWorkersTell) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> told{0};
    pool->async_allocate(ask(nowhere), [&told](const error_code& error, const buffer&) {
      EXPECT_EQ(error, errc::unknown_node);
      std::this_thread::yield();
      ++told;
    });
    pool->submit(
        nowhere, [] {}, [&told](const std::exception_ptr& thrown) { told += thrown ? 1 : 0; });
    pool->drain();
    ASSERT_EQ(told, 2);
  }
}

TEST(Shutdown, WaitsForRefusalsThatWorkersTell) {
  for (int round = 0; round < 50; ++round) {
    fake_machine machine(machine_plan::two_nodes());
    std::atomic<int> told{0};
    auto pool = machine.make_pool();
    pool->async_allocate(ask(nowhere), [&told](const error_code&, const buffer&) {
      std::this_thread::yield();
      ++told;
    });
    pool.reset();
    ASSERT_EQ(told, 1);
  }
}

TEST(Drain, IsRefusedWhereARefusalIsTold) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  std::promise<error_code> told;
  pool->async_allocate(ask(nowhere), [&](const error_code&, const buffer&) {
    told.set_value(failure_of([&] { pool->drain(); }).code);
  });
  EXPECT_EQ(told.get_future().get(), errc::called_from_worker);
}

}  // namespace
}  // namespace numapool
