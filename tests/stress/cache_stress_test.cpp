// SPDX-License-Identifier: Apache-2.0
//
// Goal: no order of taking, giving and trimming on many threads hands a buffer out twice, loses or
// leaks a byte that was written, or passes anything but zeros for zeroed memory.
// Method: four threads do what a random generator tells them; a reference beside the cache knows
// which memory is out and what was last written to what is not. The seed is printed, and
// NUMAPOOL_STRESS_SEED repeats one.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include "support/cache_fixture.hpp"

namespace numapool {
namespace {

namespace asio = boost::asio;
using test::cached_pool;
using test::kib;
using test::mib;

constexpr std::size_t most_bytes = 5 * mib + 512 * kib;  // one large buffer and a few small ones
constexpr int thread_count = 4;
#if defined(__SANITIZE_THREAD__)
constexpr int actions_a_thread = 15'000;
#else
constexpr int actions_a_thread = 100'000;
#endif

std::uint64_t choose_seed() {
  const char* const given = std::getenv("NUMAPOOL_STRESS_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "NUMAPOOL_STRESS_SEED=" << seed << '\n';
  return seed;
}

bool is_filled(const buffer& held, unsigned char with) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(held.data());
  return *bytes == with && std::memcmp(bytes, bytes + 1, held.mapped_bytes() - 1) == 0;
}

// What must be true of memory, whatever the cache does with it.
class reference {
 public:
  void took(const buffer& held, contents wanted, node_id node) {
    unsigned char last = 0;
    {
      const std::lock_guard lock(mutex_);
      ASSERT_TRUE(out_.insert(held.data()).second) << "handed out twice";
      last = written_[held.data()];
    }
    EXPECT_EQ(held.node_requested(), node);
    EXPECT_EQ(held.node_reached(), node);
    const bool is_hit = held.timings().map.count() == 0;
    const bool is_zero = wanted == contents::zeroed || !is_hit;
    EXPECT_TRUE(is_filled(held, is_zero ? 0 : last)) << "zeroed " << is_zero;
  }
  void gives(const buffer& held, unsigned char with) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(out_.erase(held.data()), 1U);
    written_[held.data()] = with;
  }

 private:
  std::mutex mutex_;
  std::set<const std::byte*> out_;
  std::map<const std::byte*, unsigned char> written_;
};

class random_user {
 public:
  random_user(cached_pool& on, reference& truth, std::uint64_t seed)
      : on_(on), truth_(truth), random_(seed) {}

  void act() {
    const std::uint64_t choice = pick(1000);
    if (choice < 490 && held_.size() < 8) {
      take();
    } else if (choice < 980) {
      give();
    } else if (choice < 983) {
      on_.cache->trim(pick(2 * mib));
    } else if (choice < 986) {
      on_.cache->trim_older_than(std::chrono::nanoseconds(pick(300'000)));
    } else {
      check_counts();
    }
    test::pass_time(std::chrono::nanoseconds(pick(1000)));
  }
  void give_all() {
    while (!held_.empty()) {
      give();
    }
  }

 private:
  std::uint64_t pick(std::uint64_t count) {
    return std::uniform_int_distribution<std::uint64_t>(0, count - 1)(random_);
  }

  void take() {
    request what;
    what.size_bytes = pick(500) == 0 ? 5 * mib + 3 : std::array{kib, 7 * kib, 60 * kib}.at(pick(3));
    what.node = node_id(static_cast<std::uint32_t>(pick(2)));
    what.pin = pick(4) == 0 ? pin_policy::mlock : pin_policy::none;
    const contents wanted = pick(2) == 0 ? contents::zeroed : contents::as_is;
    buffer made = pick(8) == 0 ? on_.cache->async_take(what, wanted, asio::use_future).get()
                               : on_.cache->take(what, wanted);
    ASSERT_EQ(made.size_bytes(), what.size_bytes);
    truth_.took(made, wanted, what.node);
    const auto with = static_cast<unsigned char>(1 + pick(255));
    std::memset(made.data(), with, made.mapped_bytes());
    held_.emplace_back(std::move(made), with);
  }

  void give() {
    if (held_.empty()) {
      return;
    }
    std::swap(held_[pick(held_.size())], held_.back());
    auto [made, with] = std::move(held_.back());
    held_.pop_back();
    EXPECT_TRUE(is_filled(made, with)) << "somebody else wrote to it";
    truth_.gives(made, with);
    on_.cache->give(std::move(made));
  }

  void check_counts() {
    const buffer_cache_stats now = on_.cache->stats();
    EXPECT_LE(now.kept.bytes, most_bytes);
    EXPECT_EQ(now.kept.bytes == 0, now.kept.buffers == 0);
  }

  cached_pool& on_;
  reference& truth_;
  std::mt19937_64 random_;
  std::vector<std::pair<buffer, unsigned char>> held_;
};

TEST(CacheStress, HandsNothingOutTwiceAndLosesNoByte) {
  const std::uint64_t seed = choose_seed();
  buffer_cache_options options;
  options.max_bytes = most_bytes;
  options.max_age = std::chrono::microseconds(100);  // of the test's clock
  cached_pool on(options);
  reference truth;
  std::latch start(thread_count);
  {
    std::vector<std::jthread> threads;
    threads.reserve(thread_count);
    for (int i = 0; i < thread_count; ++i) {
      threads.emplace_back([&, i] {
        random_user user(on, truth, seed + static_cast<std::uint64_t>(i));
        start.arrive_and_wait();
        for (int action = 0; action < actions_a_thread && !testing::Test::HasFailure(); ++action) {
          user.act();
        }
        user.give_all();
      });
    }
  }
  const buffer_cache_stats stats = on.cache->stats();
  std::cout << stats.hits << " hits, " << stats.misses << " misses, " << stats.refused.buffers
            << " refused; trimmed: " << stats.trimmed_by_bytes.buffers << " by bytes, "
            << stats.trimmed_by_age.buffers << " by age, " << stats.trimmed_by_call.buffers
            << " by call\n";
  EXPECT_GT(stats.hits, stats.misses);
  EXPECT_GT(stats.trimmed_by_bytes.buffers, 0U);
  EXPECT_GT(stats.trimmed_by_age.buffers, 0U);
  EXPECT_GT(stats.trimmed_by_call.buffers, 0U);
  // Every buffer that was made was given, and is kept or went for a reason that was counted.
  EXPECT_EQ(stats.misses, stats.kept.buffers + stats.refused.buffers +
                              stats.trimmed_by_bytes.buffers + stats.trimmed_by_age.buffers +
                              stats.trimmed_by_call.buffers);
  EXPECT_EQ(on.machine.memory().mappings(), stats.kept.buffers);
  on.cache->clear();
  EXPECT_EQ(on.machine.memory().mappings(), 0U);
}

}  // namespace
}  // namespace numapool
