// SPDX-License-Identifier: Apache-2.0
//
// Goal: a pool ends in the stated order: what has not started is refused or dropped, what runs
// ends, buffers stay; and in a forked child it is the parent's.
// Method: pools over simulated machines; latches hold the workers where a test needs them.

#include <atomic>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pool_fixture.hpp"

namespace numapool {
namespace {

using test::ask;
using test::failure_of;
using test::fake_machine;
using test::held_worker;
using test::machine_plan;
using test::mib;
using test::one_worker;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

TEST(Drain, ReturnsWhenWhatWasAcceptedHasCompleted) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const auto pool = machine.make_pool();
  std::atomic<int> completed{0};
  request by_device = ask(node_id::unknown);
  by_device.device = 0;  // starts on one node's workers and goes on on another's
  for (int round = 0; round < 50; ++round) {
    completed = 0;
    const auto count = [&completed](const boost::system::error_code& error, const buffer& made) {
      EXPECT_FALSE(error);
      EXPECT_TRUE(static_cast<bool>(made));
      ++completed;
    };
    pool->async_allocate(ask(node_0), count);
    pool->async_allocate(ask(node_1), count);
    pool->async_allocate(by_device, count);
    pool->submit(
        node_0, [] {}, [&completed](const std::exception_ptr&) { ++completed; });
    pool->drain();
    ASSERT_EQ(completed, 4);
  }
}

TEST(Shutdown, CompletesWhatHasNotStartedWithItsOwnError) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  std::atomic<int> refused{0};
  std::atomic<bool> posted_ran{false};
  const auto held = std::make_shared<int>(0);
  {
    held_worker busy(*pool, node_0);
    pool->async_allocate(
        ask(node_0), [&](const boost::system::error_code& error, const buffer& none) {
          refused += error == errc::pool_shut_down && !none && none.why().code == error ? 1 : 0;
        });
    pool->submit(
        node_0, [&] { posted_ran = true; },
        [&](const std::exception_ptr& thrown) {
          refused +=
              failure_of([&] { std::rethrow_exception(thrown); }).code == errc::pool_shut_down ? 1
                                                                                               : 0;
        });
    boost::asio::post(pool->executor(node_0), [&, held] { posted_ran = true; });
    std::jthread ending([&] { pool->shutdown(); });
    while (refused !=
           2) {  // completed before the running function has ended: it still holds its worker
      std::this_thread::yield();
    }
    busy.let_go();
  }
  EXPECT_FALSE(posted_ran);
  EXPECT_EQ(held.use_count(), 1) << "a posted function is dropped unrun";
  EXPECT_EQ(machine.threads().live(), 0U);
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(ask(node_0))); }).code,
            errc::pool_shut_down);
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->executor(node_1)); }).code,
            errc::pool_shut_down);
  EXPECT_EQ(failure_of([&] { pool->submit(node_0, [] {}); }).code, errc::pool_shut_down);
  pool->shutdown();
  pool->drain();
}

TEST(Shutdown, DeliversTheResultOfAFunctionThatRunsMeanwhile) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  std::latch running(1);
  std::latch may_end(1);
  std::latch refused(1);
  std::atomic<int> result{0};
  pool->submit(
      node_0,
      [&] {
        running.count_down();
        may_end.wait();
        return 7;
      },
      [&](const std::exception_ptr& thrown, int value) { result = thrown ? -1 : value; });
  running.wait();
  pool->submit(
      node_0, [] {}, [&](const std::exception_ptr&) { refused.count_down(); });
  std::jthread ending([&] { pool->shutdown(); });
  refused.wait();  // the workers take no more now
  may_end.count_down();
  ending.join();
  EXPECT_EQ(result, 7);
}

TEST(Shutdown, LetsARunningAllocationEnd) {
  fake_machine machine(machine_plan::two_nodes());
  std::latch populating(1);
  std::latch may_go_on(1);
  std::atomic<bool> first{true};
  machine.memory().set_populate_hook([&](const std::byte*) {
    if (first.exchange(false)) {
      populating.count_down();
      may_go_on.wait();
    }
  });
  auto pool = machine.make_pool();
  auto result = pool->async_allocate(ask(node_0, 100 * mib), boost::asio::use_future);
  populating.wait();
  std::jthread ending([&] { pool.reset(); });
  may_go_on.count_down();
  const buffer held = result.get();
  ending.join();
  EXPECT_TRUE(static_cast<bool>(held)) << "and it outlives the pool";
  EXPECT_EQ(held.node_reached(), node_0);
}

TEST(Shutdown, LeavesBuffersValidThatAreDroppedLater) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  buffer held;
  {
    const auto pool = machine.make_pool();
    held = pool->allocate(ask(node_0));
  }
  EXPECT_EQ(machine.threads().live(), 0U);
  held.span().back() = std::byte{1};
  EXPECT_EQ(held.remeasure().share_on_node, 1.0);
  held.reset();
  EXPECT_EQ(machine.memory().mappings(), 0U);
}

using WorkerPoolDeathTest = testing::Test;

TEST_F(WorkerPoolDeathTest, EndsTheProcessWhenItIsDestroyedOnItsOwnWorkerOrAPostedFunctionThrows) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  fake_machine machine(machine_plan::two_nodes());
  EXPECT_DEATH(
      {
        const auto pool = machine.make_pool();
        pool->submit(node_0, [&] { pool->shutdown(); });
      },
      "does not hold");
  EXPECT_DEATH(
      {
        const auto pool = machine.make_pool();
        boost::asio::post(pool->executor(node_0), [] { throw 1; });
        pool->drain();
      },
      "");
}

// ---- fork, as far as a simulated one goes; tests/system has real ones

TEST(ForkedChild, IsToldThatThePoolIsItsParents) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  static_cast<void>(pool->executor(node_0));
  machine.threads().set_generation(1);
  boost::system::error_code error;
  EXPECT_FALSE(static_cast<bool>(pool->allocate(ask(node_0), error)));
  EXPECT_EQ(error, errc::forked_child);
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->executor(node_0)); }).code,
            errc::forked_child);
  EXPECT_EQ(failure_of([&] { pool->submit(node_0, [] {}); }).code, errc::forked_child);
  EXPECT_EQ(failure_of([&] { pool->drain(); }).code, errc::forked_child);
  pool->shutdown();
  EXPECT_EQ(machine.threads().live(), 4U) << "the parent's threads are left alone";
  machine.threads().set_generation(0);
}

}  // namespace
}  // namespace numapool
