// SPDX-License-Identifier: Apache-2.0
//
// Goal: cancellation and deadlines are seen before the start and between pieces, undo everything, and do nothing else.
// Method: pools over simulated machines whose memory calls back at each piece, so that a test acts exactly there.

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pool_helpers.hpp"

namespace numapool {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using test::ask;
using test::fake_machine;
using test::held_worker;
using test::machine_plan;
using test::mib;
using test::one_worker;
using test::seam_call;

constexpr node_id node_0(0);

// What an allocation delivered.
struct delivery {
  error_code error;
  failure why;
  bool has_buffer = false;
};

class one_allocation {
 public:
  void start(worker_pool& pool, const request& what) {
    pool.async_allocate(what, asio::bind_cancellation_slot(signal.slot(), [this](const error_code& error, buffer made) {
      delivered_.set_value({error, made.why(), static_cast<bool>(made)});
    }));
  }
  delivery wait() { return delivered_.get_future().get(); }
  asio::cancellation_signal signal;

 private:
  std::promise<delivery> delivered_;
};

// Spins: the deadline is the clock's, and nothing but the clock can make it pass.
void let_pass(std::chrono::milliseconds time) {
  for (const auto until = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() <= until;) {
    std::this_thread::yield();
  }
}

TEST(Cancellation, BeforeTheStartMapsNothing) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::total}) {
    one_allocation allocation;
    {
      held_worker busy(*pool, node_0);
      allocation.start(*pool, ask(node_0));
      allocation.signal.emit(type);
    }
    const delivery got = allocation.wait();
    EXPECT_EQ(got.error, errc::cancelled);
    EXPECT_EQ(got.why.code, errc::cancelled);
    EXPECT_FALSE(got.has_buffer);
  }
  EXPECT_EQ(machine.memory().mappings_made(), 0U);
}

TEST(Cancellation, BetweenPiecesUndoesEverything) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  one_allocation allocation;
  std::atomic<int> calls{0};
  machine.memory().set_populate_hook([&](const std::byte*) {
    if (++calls == 2) {
      allocation.signal.emit(asio::cancellation_type::terminal);
    }
  });
  allocation.start(*pool, ask(node_0, 320 * mib));
  const delivery got = allocation.wait();
  EXPECT_EQ(got.error, errc::cancelled);
  EXPECT_EQ(got.why.operation, operation::populate);
  EXPECT_EQ(calls, 2) << "the other eight pieces were left";
  EXPECT_EQ(machine.memory().mappings(), 0U) << "undone before the handler hears";
  EXPECT_EQ(machine.memory().locked_bytes(), 0U);
}

TEST(Cancellation, OfAnotherKindDoesNothing) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  one_allocation allocation;
  {
    held_worker busy(*pool, node_0);
    allocation.start(*pool, ask(node_0));
    allocation.signal.emit(asio::cancellation_type::partial);
  }
  EXPECT_TRUE(allocation.wait().has_buffer);
}

TEST(Cancellation, AfterTheEndDoesNothing) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  one_allocation allocation;
  allocation.start(*pool, ask(node_0));
  EXPECT_TRUE(allocation.wait().has_buffer);
  pool->drain();
  allocation.signal.emit(asio::cancellation_type::terminal);
}

TEST(Timeout, PassesBetweenPiecesAndUndoesEverything) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  std::atomic<int> calls{0};
  machine.memory().set_populate_hook([&](const std::byte*) {
    if (++calls == 1) {
      let_pass(2ms);
    }
  });
  request what = ask(node_0, 320 * mib);
  what.timeout = 1ms;
  error_code error;
  const buffer none = pool->allocate(what, error);
  EXPECT_EQ(error, errc::timed_out);
  EXPECT_THAT(none.why().message, testing::HasSubstr("1 ms"));
  EXPECT_LE(calls, 1);
  EXPECT_EQ(machine.memory().mappings(), 0U);
}

TEST(Timeout, IsLookedAtAfterTheLastPieceToo) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto pool = machine.make_pool(one_worker());
  machine.memory().set_populate_hook([](const std::byte*) { let_pass(2ms); });
  request what = ask(node_0, 4 * mib);  // one piece
  what.timeout = 1ms;
  error_code error;
  static_cast<void>(pool->allocate(what, error));
  EXPECT_EQ(error, errc::timed_out);
  EXPECT_EQ(machine.faults().count(seam_call::register_range), 0U) << "the longest step is not begun";
}

TEST(Timeout, CountsFromTheStartOfWorkAndNotOfWaiting) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  request what = ask(node_0, 4096);
  what.timeout = 500ms;
  one_allocation allocation;
  {
    held_worker busy(*pool, node_0);
    allocation.start(*pool, what);
    let_pass(510ms);
  }
  EXPECT_TRUE(allocation.wait().has_buffer);
}

TEST(Timeout, OfTheLongestTimeThereIsNeverPasses) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (const auto longest : {std::chrono::milliseconds::max(), std::chrono::milliseconds(INT64_MAX / 1'000'000)}) {
    request what = ask(node_0, 4096);
    what.timeout = longest;
    error_code error;
    EXPECT_TRUE(static_cast<bool>(pool->allocate(what, error))) << error.message();
  }
}

TEST(Pieces, OfASmallRequestDoNotWaitForALargeOne) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  std::atomic<int> calls{0};
  std::atomic<int> calls_before_small_ended{-1};
  machine.memory().set_populate_hook([&](const std::byte*) {
    if (++calls == 2) {  // the large one is under way
      pool->async_allocate(ask(node_0, 2 * mib), [&](const error_code& error, const buffer& made) {
        EXPECT_FALSE(error);
        EXPECT_TRUE(static_cast<bool>(made));
        calls_before_small_ended = calls.load();
      });
    }
  });
  request large = ask(node_0, 640 * mib);
  large.pin = pin_policy::none;
  EXPECT_TRUE(static_cast<bool>(pool->allocate(large)));
  pool->drain();
  EXPECT_GT(calls_before_small_ended, 0);
  EXPECT_LT(calls_before_small_ended, 8) << "of the large one's twenty pieces";
}

}  // namespace
}  // namespace numapool
