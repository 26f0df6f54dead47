// SPDX-License-Identifier: Apache-2.0
//
// Goal: an asynchronous take completes once, where its handler completes, never inside the
// initiating call; what is interrupted is kept as it was.
// Method: caches over simulated machines; an io_context that the test runs itself; workers that
// the test keeps busy.

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <numapool/with_details.hpp>

#include "support/cache_fixture.hpp"

namespace numapool {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using test::ask;
using test::cached_pool;
using test::failure_of;
using test::held_worker;
using test::is_all;
using test::mib;
using test::one_worker;

constexpr node_id node_0(0);
constexpr node_id node_1(1);
constexpr std::byte written{0x5A};
constexpr std::byte zero{0};

TEST(AsyncTake, FulfilsAFutureFromThePoolAndFromWhatIsKept) {
  cached_pool on;
  buffer first = on.cache->async_take(ask(node_1), contents::zeroed, asio::use_future).get();
  const std::byte* const where = first.data();
  test::fill(first, written);
  on.cache->give(std::move(first));
  buffer second = on.cache->async_take(ask(node_1), contents::as_is, asio::use_future).get();
  EXPECT_EQ(second.data(), where);
  EXPECT_TRUE(is_all(second, written));
  on.cache->give(std::move(second));
  const buffer third = on.cache->async_take(ask(node_1), contents::zeroed, asio::use_future).get();
  EXPECT_EQ(third.data(), where);
  EXPECT_TRUE(is_all(third, zero));
  EXPECT_EQ(on.cache->stats().hits, 2U);
  EXPECT_EQ(on.cache->stats().misses, 1U);
}

TEST(AsyncTake, CallsBackOnAWorkerOfTheNode) {
  cached_pool on;
  for (const contents wanted : {contents::as_is, contents::zeroed}) {
    on.use_once(ask(node_1, 9 * mib));
    std::promise<buffer> delivered;
    on.cache->async_take(ask(node_1, 9 * mib), wanted, [&](const error_code& error, buffer made) {
      EXPECT_FALSE(error);
      EXPECT_TRUE(on.pool->executor(node_1).running_in_this_thread());
      delivered.set_value(std::move(made));
    });
    buffer made = delivered.get_future().get();
    EXPECT_TRUE(is_all(made, wanted == contents::zeroed ? zero : written));
    on.cache->give(std::move(made));
  }
}

TEST(AsyncTake, CompletesOnTheHandlersExecutorAndNeverInsideTheCall) {
  cached_pool on;
  for (const bool is_kept : {false, true}) {
    for (const contents wanted : {contents::as_is, contents::zeroed}) {
      on.cache->clear();
      if (is_kept) {
        on.use_once(ask(node_0, 5 * mib));
      }
      asio::io_context context;
      bool is_inside = true;
      int calls = 0;
      asio::post(context, [&] {
        on.cache->async_take(
            ask(node_0, 5 * mib), wanted,
            asio::bind_executor(context.get_executor(), [&](const error_code& error, buffer made) {
              EXPECT_FALSE(error);
              EXPECT_FALSE(is_inside);
              EXPECT_TRUE(context.get_executor().running_in_this_thread());
              EXPECT_EQ(is_all(made, zero), wanted == contents::zeroed || !is_kept);
              ++calls;
            }));
        is_inside = false;
      });
      context.run();  // does not run dry before it is called
      EXPECT_EQ(calls, 1);
    }
  }
}

TEST(AsyncTake, IsAwaited) {
  cached_pool on;
  on.use_once(ask(node_0));
  asio::io_context context;
  std::exception_ptr thrown;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        const buffer kept =
            co_await on.cache->async_take(ask(node_0), contents::zeroed, asio::use_awaitable);
        EXPECT_TRUE(is_all(kept, zero));
        bool threw = false;
        try {
          static_cast<void>(co_await on.cache->async_take(ask(node_0, 0), contents::zeroed,
                                                          with_details(asio::use_awaitable)));
        } catch (const error& failed) {
          threw = failed.why().code == errc::zero_size && !failed.why().message.empty();
        }
        EXPECT_TRUE(threw);
      },
      [&](const std::exception_ptr& why) { thrown = why; });
  context.run();
  EXPECT_FALSE(thrown);
  EXPECT_EQ(on.cache->stats().hits, 1U);
}

TEST(AsyncTake, KeepsWhatWasCancelledWhileItWasZeroed) {
  cached_pool on({}, one_worker());
  const std::byte* const where = on.use_once(ask(node_0, 64 * mib));
  asio::cancellation_signal signal;
  std::promise<error_code> done;
  {
    held_worker busy(*on.pool, node_0);
    on.cache->async_take(
        ask(node_0, 64 * mib), contents::zeroed,
        asio::bind_cancellation_slot(signal.slot(), [&](const error_code& error, buffer none) {
          EXPECT_FALSE(none);
          EXPECT_EQ(none.why().code, error);
          EXPECT_FALSE(none.why().message.empty());
          done.set_value(error);
        }));
    signal.emit(asio::cancellation_type::partial);  // which is not acted on
    signal.emit(asio::cancellation_type::terminal);
  }
  EXPECT_EQ(done.get_future().get(), errc::cancelled);
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
  const buffer again = on.cache->take(ask(node_0, 64 * mib), contents::as_is);
  EXPECT_EQ(again.data(), where);
  EXPECT_TRUE(is_all(again, written)) << "no piece was begun";
}

TEST(AsyncTake, KeepsWhatWasLate) {
  cached_pool on({}, one_worker());
  on.use_once(ask(node_0, 64 * mib));
  request what = ask(node_0, 64 * mib);
  what.timeout = std::chrono::milliseconds(1);
  std::promise<error_code> done;
  {
    held_worker busy(*on.pool, node_0);
    on.cache->async_take(what, contents::zeroed,
                         [&](const error_code& error, const buffer&) { done.set_value(error); });
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(done.get_future().get(), errc::timed_out);
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
}

TEST(AsyncTake, MakesRoomForWhatIsAskedFor) {
  worker_pool_options options;
  options.reserve_bytes = 0;
  cached_pool on({}, options);
  on.machine.memory().set_free(node_0, 20 * mib);
  request what = ask(node_0, 12 * mib);
  what.bind = bind_policy::strict;
  on.use_once(what);
  what.size_bytes = 16 * mib;
  const buffer made = on.cache->async_take(what, contents::zeroed, asio::use_future).get();
  EXPECT_EQ(made.mapped_bytes(), 16 * mib);
  EXPECT_EQ(on.cache->stats().trimmed_for_room.buffers, 1U);
  what.size_bytes = 64 * mib;
  auto refused = on.cache->async_take(what, contents::zeroed, with_details(asio::use_future));
  EXPECT_EQ(failure_of([&] { static_cast<void>(refused.get()); }).code, errc::out_of_node_memory);
}

TEST(AsyncTake, KeepsWhatNobodyCanDeliver) {
  cached_pool on;
  on.use_once(ask(node_0));
  on.pool->shutdown();
  for (const contents wanted : {contents::as_is, contents::zeroed}) {
    EXPECT_EQ(failure_of([&] {
                on.cache->async_take(ask(node_0), wanted, [](const error_code&, const buffer&) {
                  ADD_FAILURE() << "there is nobody to call it";
                });
              }).code,
              errc::pool_shut_down);
  }
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
}

TEST(AsyncTake, IsToldOfAShutdownThatComesFirst) {
  cached_pool on({}, one_worker());
  on.use_once(ask(node_0, 16 * mib));
  asio::io_context context;
  error_code told;
  auto ending = std::make_unique<std::thread>();
  {
    held_worker busy(*on.pool, node_0);
    on.cache->async_take(
        ask(node_0, 16 * mib), contents::zeroed,
        asio::bind_executor(context.get_executor(),
                            [&](const error_code& error, const buffer&) { told = error; }));
    *ending = std::thread([&] { on.pool->shutdown(); });
    context.run();  // until shutdown() has dropped what was queued
  }
  ending->join();
  EXPECT_EQ(told, errc::pool_shut_down);
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
}

TEST(AsyncTake, OutlivesTheCache) {
  cached_pool on({}, one_worker());
  on.use_once(ask(node_0, 16 * mib));
  std::future<buffer> kept;
  std::future<buffer> missed;
  {
    held_worker busy(*on.pool, node_0);
    kept = on.cache->async_take(ask(node_0, 16 * mib), contents::zeroed, asio::use_future);
    missed = on.cache->async_take(ask(node_0, 16 * mib), contents::zeroed, asio::use_future);
    on.cache.reset();
  }
  EXPECT_TRUE(is_all(kept.get(), zero));
  EXPECT_TRUE(is_all(missed.get(), zero));
}

}  // namespace
}  // namespace numapool
