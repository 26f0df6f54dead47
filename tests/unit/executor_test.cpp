// SPDX-License-Identifier: Apache-2.0
//
// Goal: a node's executor is an Asio executor like any other: post, dispatch, defer, strands and
// timers work over it, equal means the same workers, and a small function costs no heap allocation.
// Method: pools over simulated machines; a counting operator new for the costs.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <new>
#include <thread>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pool_fixture.hpp"

namespace {

// How often the calling thread has allocated.
thread_local std::size_t allocations = 0;
// And how often all threads have.
std::atomic<std::size_t> allocations_of_all{0};

}  // namespace

// GCC 12 takes the pair apart when it inlines them.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  ++allocations_of_all;
  if (void* const made = std::malloc(size)) {
    return made;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  ++allocations_of_all;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* made) noexcept {
  std::free(made);
}
[[gnu::noinline]] void operator delete(void* made, std::size_t) noexcept {
  std::free(made);
}

namespace numapool {
namespace {

namespace asio = boost::asio;
using test::fake_machine;
using test::held_worker;
using test::machine_plan;
using test::one_worker;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

static_assert(asio::is_executor<node_executor>::value ||
              asio::execution::is_executor<node_executor>::value);
static_assert(asio::execution::can_execute<node_executor, void (*)()>::value);
static_assert(std::is_nothrow_copy_constructible_v<node_executor>);

TEST(Executor, RunsOnItsNodesWorkers) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (const node_id node : {node_0, node_1}) {
    std::promise<node_id> where;
    asio::post(pool->executor(node), [&] { where.set_value(machine.threads().current_node()); });
    EXPECT_EQ(where.get_future().get(), node);
  }
}

TEST(Executor, IsEqualWhenItNamesTheSameWorkersAndMayBlockAlike) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const node_executor one = pool->executor(node_0);
  EXPECT_EQ(one, pool->executor(node_0));
  EXPECT_NE(one, pool->executor(node_1));
  const auto possibly = asio::require(one, asio::execution::blocking.possibly);
  EXPECT_NE(one, possibly);
  EXPECT_EQ(one, asio::require(possibly, asio::execution::blocking.never));
  EXPECT_EQ(asio::query(one, asio::execution::blocking), asio::execution::blocking.never);
  EXPECT_EQ(asio::query(possibly, asio::execution::blocking), asio::execution::blocking.possibly);
  EXPECT_EQ(&asio::query(one, asio::execution::context),
            &asio::query(pool->executor(node_1), asio::execution::context));
}

// Asio's dispatch() leaves `blocking` as the executor has it, and this one's default is never.
TEST(Executor, RunsInsideTheCallOnAWorkerOnlyWhereItMayBlock) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  const auto executor = pool->executor(node_0);
  EXPECT_FALSE(executor.running_in_this_thread());
  std::vector<int> order;
  pool->submit(node_0, [&] {
    EXPECT_TRUE(executor.running_in_this_thread());
    asio::post(executor, [&] { order.push_back(3); });
    asio::defer(executor, [&] { order.push_back(4); });
    asio::dispatch(executor, [&] { order.push_back(5); });
    asio::dispatch(asio::require(executor, asio::execution::blocking.possibly),
                   [&] { order.push_back(1); });
    order.push_back(2);
  });
  pool->drain();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(Executor, QueuesADispatchFromElsewhere) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const auto other = pool->executor(node_1);
  std::promise<node_id> where;
  pool->submit(node_0, [&] {
    asio::dispatch(other, [&] { where.set_value(machine.threads().current_node()); });
  });
  EXPECT_EQ(where.get_future().get(), node_1);
}

TEST(Executor, QueuesASmallFunctionWithoutAllocating) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  const auto executor = pool->executor(node_0);
  std::atomic<int> runs{0};
  struct small {
    std::atomic<int>* runs;
    std::array<char, 56> padding{};
    void operator()() const { ++*runs; }
  };
  static_assert(sizeof(small) == 64);
  {
    // Two are used in turn: a worker gives one back when it takes the next, or sleeps.
    const held_worker busy(*pool, node_0);
    asio::post(executor, small{&runs});
    asio::post(executor, small{&runs});
  }
  pool->drain();
  const std::size_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    executor.execute(small{&runs});
    while (runs != i + 3) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(allocations, before);
}

// On every thread, posters and workers: a million functions, never more than some hundreds queued.
TEST(Executor, AllocatesNothingForAMillionSmallFunctions) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  const auto executor = pool->executor(node_0);
  std::atomic<int> left{0};
  const auto post_burst = [&](int count) {
    left = count;
    for (int i = 0; i < count; ++i) {
      asio::post(executor, [&left] { --left; });
    }
    while (left != 0) {
      std::this_thread::yield();
    }
    pool->submit(node_0, [] {});
  };
  {
    // As many at once as ever will be, or a later burst that meets a slower worker makes more.
    const held_worker busy(*pool, node_0);
    for (int i = 0; i < 1000; ++i) {
      asio::post(executor, [] {});
    }
  }
  pool->drain();
  const std::size_t before = allocations_of_all;
  for (int burst = 0; burst < 2000; ++burst) {
    post_burst(500);
  }
  EXPECT_EQ(allocations_of_all - before, 0U);
}

TEST(Executor, AllocatesOnceForALargerFunctionAndForABurst) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  const auto executor = pool->executor(node_0);
  struct large {
    std::array<char, 65> padding{};
    void operator()() const {}
  };
  executor.execute(large{});
  pool->drain();
  std::size_t before = allocations;
  executor.execute(large{});
  EXPECT_EQ(allocations, before + 1);
  pool->drain();
  {
    held_worker busy(*pool, node_0);
    for (int i = 0; i < 500; ++i) {
      executor.execute([] {});
    }
  }
  pool->drain();
  held_worker busy(*pool, node_0);
  before = allocations;
  for (int i = 0; i < 500; ++i) {
    executor.execute([] {});
  }
  EXPECT_EQ(allocations, before) << "the jobs of the first burst serve again";
}

TEST(Submit, BlockingAllocatesNothing) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  pool->submit(node_0, [] {});
  std::array<char, 200> large{};
  const std::size_t before = allocations;
  EXPECT_EQ(pool->submit(node_0, [large] { return large.size(); }), 200U);
  EXPECT_EQ(allocations, before);
}

TEST(Strand, OverTheExecutorRunsOneAtATime) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  auto strand = asio::make_strand(pool->executor(node_0));
  int inside = 0;
  int total = 0;  // not atomic: tsan sees it if two run at once
  for (int i = 0; i < 500; ++i) {
    asio::post(strand, [&] {
      EXPECT_EQ(++inside, 1);
      ++total;
      --inside;
    });
  }
  pool->drain();
  EXPECT_EQ(total, 500);
}

TEST(Timer, OverTheExecutorFiresOnTheNodesWorkers) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  asio::steady_timer timer(pool->executor(node_1), std::chrono::milliseconds(1));
  std::promise<node_id> where;
  timer.async_wait([&](const boost::system::error_code& error) {
    EXPECT_FALSE(error);
    where.set_value(machine.threads().current_node());
  });
  EXPECT_EQ(where.get_future().get(), node_1);
}

TEST(Timer, ThatIsStillWaitingDoesNotHoldUpThePoolsEnd) {
  fake_machine machine(machine_plan::two_nodes());
  auto pool = machine.make_pool();
  bool fired = false;
  {
    asio::steady_timer timer(pool->executor(node_1), std::chrono::hours(1));
    timer.async_wait([&](const boost::system::error_code&) { fired = true; });
    pool->shutdown();
  }
  pool.reset();
  EXPECT_FALSE(fired) << "nothing runs it any more";
}

TEST(AnyExecutor, HoldsIt) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const asio::any_io_executor held = pool->executor(node_1);
  EXPECT_EQ(held, asio::any_io_executor(pool->executor(node_1)));
  std::promise<node_id> where;
  asio::post(held, [&] { where.set_value(machine.threads().current_node()); });
  EXPECT_EQ(where.get_future().get(), node_1);
}

}  // namespace
}  // namespace numapool
