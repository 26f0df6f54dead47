// SPDX-License-Identifier: Apache-2.0
//
// Goal: no order of submitting, allocating, cancelling, dropping and shutting down loses a
// completion, delivers one twice, leaves memory, or is a data race (under the thread sanitizer).
// Method: eight threads do what a random generator tells them on pools over a simulated machine, in
// rounds that end with a shutdown in the midst of it. The seed is printed, and NUMAPOOL_STRESS_SEED
// repeats one.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "support/pool_fixture.hpp"

namespace numapool {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using test::fake_machine;
using test::kib;
using test::machine_plan;
using test::mib;

constexpr std::ptrdiff_t thread_count = 8;

std::uint64_t choose_seed() {
  const char* const given = std::getenv("NUMAPOOL_STRESS_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "NUMAPOOL_STRESS_SEED=" << seed << '\n';
  return seed;
}

// Operations begun and completed by all threads of one round.
struct tally {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> buffers{0};
};

// One operation, so that a second completion of it is noticed.
class operation_guard {
 public:
  explicit operation_guard(tally& all)
      : all_(&all), done_(std::make_shared<std::atomic<bool>>(false)) {
    ++all.begun;
  }
  void complete() const {
    EXPECT_FALSE(done_->exchange(true)) << "completed twice";
    ++all_->completed;
  }

 private:
  tally* all_;
  std::shared_ptr<std::atomic<bool>> done_;
};

// Errors that a random order may lead to; anything else is a bug.
bool is_expected(const error_code& error) {
  return !error || error == errc::cancelled || error == errc::timed_out ||
         error == errc::pool_shut_down || error == errc::zero_size || error == errc::unknown_node ||
         error == errc::out_of_node_memory || error == errc::out_of_memory ||
         error == errc::registration_failed;
}

class random_user {
 public:
  random_user(worker_pool& pool, asio::thread_pool& control, tally& all, std::uint64_t seed)
      : pool_(pool), control_(control), all_(all), random_(seed) {}

  void act() {
    switch (pick(7)) {
      case 0:
        allocate_and_wait();
        break;
      case 1:
        allocate_and_keep();
        break;
      case 2:
        allocate_and_cancel();
        break;
      case 3:
        pool_.async_allocate(any_request(), asio::detached);
        break;
      case 4:
        submit();
        break;
      case 5:
        drop();
        break;
      default:
        post();
        break;
    }
  }

 private:
  std::uint64_t pick(std::uint64_t count) {
    return std::uniform_int_distribution<std::uint64_t>(0, count - 1)(random_);
  }

  request any_request() {
    request what;
    what.size_bytes = pick(20) == 0 ? 0 : pick(10) == 0 ? 80 * mib : (1 + pick(64)) * 16 * kib;
    what.node = pick(30) == 0 ? node_id(9) : node_id(static_cast<std::uint32_t>(pick(2)));
    what.pin = std::array{pin_policy::automatic, pin_policy::none, pin_policy::mlock}.at(pick(3));
    what.bind = std::array{bind_policy::prefer, bind_policy::strict, bind_policy::none}.at(pick(3));
    what.populate = pick(2) == 0 ? populate_mode::quiet : populate_mode::fast;
    what.timeout = std::chrono::milliseconds(pick(10) == 0 ? 1 : 0);
    return what;
  }

  void allocate_and_wait() {
    error_code error;
    const buffer made = pool_.allocate(any_request(), error);
    EXPECT_TRUE(is_expected(error)) << error.message();
    EXPECT_EQ(static_cast<bool>(made), !error);
  }

  void allocate_and_keep() {
    const operation_guard guard(all_);
    pool_.async_allocate(any_request(), [this, guard](const error_code& error, buffer made) {
      EXPECT_TRUE(is_expected(error)) << error.message();
      {
        const std::lock_guard lock(mutex_);
        kept_.push_back(std::move(made));
      }
      guard.complete();
    });
  }

  // Signal and slot are not for two threads at once: the handler and the emission share an executor
  // of one thread.
  void allocate_and_cancel() {
    const operation_guard guard(all_);
    const auto signal = std::make_shared<asio::cancellation_signal>();
    pool_.async_allocate(
        any_request(),
        asio::bind_cancellation_slot(
            signal->slot(),
            asio::bind_executor(control_.get_executor(),
                                [guard, signal](const error_code& error, const buffer&) {
                                  EXPECT_TRUE(is_expected(error)) << error.message();
                                  guard.complete();
                                })));
    asio::post(control_, [signal] { signal->emit(asio::cancellation_type::terminal); });
  }

  void submit() {
    const operation_guard guard(all_);
    const bool throws = pick(4) == 0;
    pool_.submit(
        node_id(static_cast<std::uint32_t>(pick(2))),
        [throws] {
          if (throws) {
            throw std::runtime_error("mine");
          }
          return 3;
        },
        [guard](const std::exception_ptr& thrown, int result) {
          EXPECT_TRUE(thrown || result == 3);
          guard.complete();
        });
  }

  void drop() {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      std::swap(kept_[pick(kept_.size())], kept_.back());
      kept_.pop_back();
    }
  }

  void post() {
    try {
      asio::post(pool_.executor(node_id(static_cast<std::uint32_t>(pick(2)))),
                 [this] { ++all_.buffers; });
    } catch (const error& thrown) {
      EXPECT_EQ(thrown.code(), errc::pool_shut_down);
    }
  }

  worker_pool& pool_;
  asio::thread_pool& control_;
  tally& all_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::vector<buffer> kept_;
};

TEST(PoolStress, LosesAndDoublesNothingInAnyOrder) {
  const std::uint64_t seed = choose_seed();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  std::uint64_t rounds = 0;
  constexpr std::uint64_t fewest_rounds = 4;  // however slow the machine
  const auto goes_on = [&] {
    return rounds < fewest_rounds || std::chrono::steady_clock::now() < until;
  };
  for (; goes_on() && !testing::Test::HasFailure(); ++rounds) {
    fake_machine machine(machine_plan::two_nodes());
    machine.add_devices({node_id(0), node_id(1)});
    tally all;
    {
      auto pool = machine.make_pool();
      asio::thread_pool control(1);
      std::vector<std::unique_ptr<random_user>> users;
      for (std::ptrdiff_t i = 0; i < thread_count; ++i) {
        const std::uint64_t mine = seed + rounds * 1000 + static_cast<std::uint64_t>(i);
        users.push_back(std::make_unique<random_user>(*pool, control, all, mine));
      }
      std::latch start(thread_count);
      {
        std::vector<std::jthread> threads;
        threads.reserve(users.size());
        for (auto& user : users) {
          threads.emplace_back([&] {
            start.arrive_and_wait();
            for (int i = 0; i < 30; ++i) {
              user->act();
            }
          });
        }
      }
      if (rounds % 2 == 0) {
        pool->drain();
      }
      pool.reset();  // while what was begun is under way, in every second round
      control.join();
      EXPECT_EQ(all.completed, all.begun);
    }
  }
}

}  // namespace
}  // namespace numapool
