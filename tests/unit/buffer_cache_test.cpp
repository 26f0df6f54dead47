// SPDX-License-Identifier: Apache-2.0
//
// Goal: a buffer that was given is handed out again to whoever asks for the same, zeroed unless
// asked otherwise, and to nobody else; no two users ever hold the same; what is kept stays within
// its limits and is gone at the end.
// Method: pools over simulated machines of two nodes, then many random takes and gives by several
// threads against a simple reference.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/buffer_cache.hpp>

#include "blocks/memory_pressure.hpp"
#include "support/pool_fixture.hpp"
#include "support/text_files.hpp"

namespace numapool {
namespace {

using test::ask;
using test::fake_machine;
using test::gib;
using test::kib;
using test::machine_plan;
using test::mib;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

bool is_filled_with(const buffer& held, std::byte value) {
  return std::all_of(held.data(), held.data() + held.mapped_bytes(),
                     [value](std::byte one) { return one == value; });
}
void fill(const buffer& held, std::byte value) {
  std::fill_n(held.data(), held.mapped_bytes(), value);
}

class buffer_cache_test : public testing::Test {
 protected:
  fake_machine machine_{machine_plan::two_nodes()};
  std::unique_ptr<worker_pool> pool_ = machine_.make_pool();
};

TEST_F(buffer_cache_test, HandsOutWhatWasGivenAndZeroesIt) {
  buffer_cache cache(*pool_);
  for (const std::size_t size : {64 * kib, 2 * mib, 24 * mib + 4 * kib}) {
    buffer first = cache.take(ask(node_0, size));
    std::byte* const data = first.data();
    fill(first, std::byte{0x5a});
    cache.give(std::move(first));
    EXPECT_FALSE(first);
    const buffer second = cache.take(ask(node_0, size));
    EXPECT_EQ(second.data(), data);
    EXPECT_TRUE(is_filled_with(second, std::byte{0}));
  }
  EXPECT_EQ(cache.stats().hits, 3U);
  EXPECT_EQ(cache.stats().misses, 3U);
  EXPECT_EQ(cache.stats().buffers, 0U);
}

TEST_F(buffer_cache_test, LeavesTheContentsToWhoWantsThemAsTheyAre) {
  buffer_cache cache(*pool_);
  buffer first = cache.take(ask(node_0, mib));
  fill(first, std::byte{0x5a});
  cache.give(std::move(first));
  EXPECT_TRUE(is_filled_with(cache.take(ask(node_0, mib), contents::as_is), std::byte{0x5a}));
}

TEST_F(buffer_cache_test, NeverHandsOutABufferOfAnotherNode) {
  buffer_cache cache(*pool_);
  cache.give(cache.take(ask(node_0, 4 * mib)));
  const buffer other = cache.take(ask(node_1, 4 * mib));
  EXPECT_EQ(other.node_reached(), node_1);
  EXPECT_EQ(cache.stats().hits, 0U);
}

// numa balancing, a cpuset that was changed: what was on the node need not be there for ever.
TEST_F(buffer_cache_test, KeepsNoneWhosePagesWereMovedMeanwhile) {
  buffer_cache cache(*pool_);
  buffer moved = cache.take(ask(node_0, 4 * mib));
  machine_.memory().migrate(moved.data(), moved.mapped_bytes(), node_1);
  cache.give(std::move(moved));
  EXPECT_EQ(cache.stats().refused, 1U);
  EXPECT_EQ(cache.stats().buffers, 0U);
}

TEST_F(buffer_cache_test, KeepsAStrictOneOnlyIfAllOfItIsThere) {
  buffer_cache cache(*pool_);
  for (const auto& [bind, kept] : {std::pair{bind_policy::prefer, 1U}, {bind_policy::strict, 0U}}) {
    request what = ask(node_0, 4 * mib);
    what.bind = bind;
    buffer held = cache.take(what);
    machine_.memory().migrate(held.data(), 4 * kib, node_1);
    cache.give(std::move(held));
    EXPECT_EQ(cache.stats().buffers, kept);
    cache.trim(0);
  }
}

TEST_F(buffer_cache_test, IsPassedByAllThatAskForSomethingElse) {
  machine_.add_devices({node_0, node_0});
  buffer_cache cache(*pool_);
  request what = ask(node_0, 4 * mib);
  what.device = 0;
  what.pin = pin_policy::cuda;
  cache.give(cache.take(what));
  std::vector<request> others(8, what);
  others[0].size_bytes = 4 * mib - 4 * kib;
  others[1].size_bytes = 4 * mib + 1;
  others[2].pages = page_policy::base;
  others[3].pin = pin_policy::none;
  others[4].bind = bind_policy::strict;
  others[5].device = 1;
  others[6].chunk_bytes = mib;
  others[7].block_stride_bytes = 8 * kib;
  for (const request& other : others) {
    static_cast<void>(cache.take(other));
  }
  EXPECT_EQ(cache.stats().hits, 0U);
  what.size_bytes -= 1;  // the same in whole pages
  const buffer found = cache.take(what);
  EXPECT_EQ(cache.stats().hits, 1U);
  EXPECT_EQ(found.size_bytes(), 4 * mib - 1);
  EXPECT_EQ(found.registrations().size(), 1U);
}

TEST_F(buffer_cache_test, FindsADevicesBufferWithoutItsNode) {
  machine_.add_devices({node_1});
  buffer_cache cache(*pool_);
  request what = ask(node_id::unknown, 2 * mib);
  what.device = 0;
  buffer first = cache.take(what);
  EXPECT_EQ(first.node_reached(), node_1);
  cache.give(std::move(first));
  EXPECT_EQ(cache.take(what).node_reached(), node_1);
  EXPECT_EQ(cache.stats().hits, 1U);
}

TEST_F(buffer_cache_test, LetsGoOfTheOldestFirst) {
  buffer_cache_options options;
  options.bytes_max = 4 * mib;
  buffer_cache cache(*pool_, options);
  std::vector<buffer> made;
  for (const std::size_t size : {mib, 2 * mib, 2 * mib, 8 * mib}) {
    made.push_back(pool_->allocate(ask(node_0, size)));
  }
  for (buffer& one : made) {
    cache.give(std::move(one));
  }
  EXPECT_EQ(cache.stats().bytes, 4 * mib);  // the first had to go, the last is too large
  EXPECT_EQ(cache.stats().trimmed_for_size, mib);
  EXPECT_EQ(cache.stats().refused, 1U);
  EXPECT_EQ(machine_.memory().mappings(), 2U);
  EXPECT_EQ(cache.trim(2 * mib), 2 * mib);
  EXPECT_EQ(cache.stats().trimmed_by_call, 2 * mib);
  EXPECT_EQ(cache.trim(2 * mib), 0U);
}

TEST_F(buffer_cache_test, LetsGoOfWhatNobodyWanted) {
  buffer_cache_options options;
  options.age_max = std::chrono::milliseconds(5);
  buffer_cache cache(*pool_, options);
  cache.give(pool_->allocate(ask(node_0, mib)));
  std::this_thread::sleep_for(std::chrono::milliseconds(6));
  static_cast<void>(cache.take(ask(node_0, 2 * mib)));
  EXPECT_EQ(cache.stats().trimmed_for_age, mib);
  cache.give(pool_->allocate(ask(node_0, mib)));
  EXPECT_EQ(cache.trim_older_than(std::chrono::hours(1)), 0U);
  EXPECT_EQ(cache.trim_older_than(std::chrono::nanoseconds(-1)), mib);
}

TEST_F(buffer_cache_test, LetsGoOfAllWhileMemoryIsScarce) {
  machine_.files().set(
      "/proc/pressure/memory",
      "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 total=0\n");
  buffer_cache cache(*pool_);
  cache.give(pool_->allocate(ask(node_0, mib)));
  EXPECT_EQ(cache.stats().refused, 1U);
  EXPECT_EQ(machine_.memory().mappings(), 0U);
  buffer_cache_options options;
  options.pressure_max = 20;
  buffer_cache patient(*pool_, options);
  patient.give(pool_->allocate(ask(node_0, mib)));
  EXPECT_EQ(patient.stats().buffers, 1U);
}

TEST_F(buffer_cache_test, SaysWhatWentWrongWithANewOne) {
  buffer_cache cache(*pool_);
  boost::system::error_code error;
  EXPECT_EQ(cache.take(ask(node_0, 0), contents::zeroed, error).why().code, errc::zero_size);
  EXPECT_EQ(error, errc::zero_size);
  EXPECT_THROW(static_cast<void>(cache.take(ask(node_id(9), mib))), numapool::error);
  cache.give(buffer());  // nothing
  EXPECT_EQ(cache.stats().refused, 0U);
}

TEST_F(buffer_cache_test, ZeroesItselfWhereThereAreNoWorkersAnyMore) {
  buffer_cache cache(*pool_);
  buffer held = cache.take(ask(node_0, 16 * mib));
  fill(held, std::byte{1});
  cache.give(std::move(held));
  pool_->shutdown();
  EXPECT_TRUE(is_filled_with(cache.take(ask(node_0, 16 * mib)), std::byte{0}));
}

TEST_F(buffer_cache_test, MayBeUsedOnAWorker) {
  buffer_cache cache(*pool_);
  buffer held = cache.take(ask(node_0, 16 * mib));
  fill(held, std::byte{1});
  cache.give(std::move(held));
  EXPECT_TRUE(pool_->submit(
      node_0, [&] { return is_filled_with(cache.take(ask(node_0, 16 * mib)), std::byte{0}); }));
}

// Whoever takes one writes its own number into all of it and finds it there until it gives it back.
TEST_F(buffer_cache_test, GivesNoTwoUsersTheSame) {
  buffer_cache_options options;
  options.bytes_max = 24 * mib;
  buffer_cache cache(*pool_, options);
  constexpr std::array<std::size_t, 3> sizes{64 * kib, 256 * kib, 8 * mib};
  std::atomic<std::uint64_t> takes{0};
  const auto use = [&](unsigned number) {
    std::mt19937 random(number);
    std::vector<std::pair<buffer, std::byte>> held;
    for (int step = 0; step < 1500; ++step) {
      if (held.size() < 3 && random() % 2 == 0) {
        const std::size_t size = sizes[random() % 100 < 2 ? 2 : random() % 2];
        const contents wanted = random() % 2 == 0 ? contents::zeroed : contents::as_is;
        buffer made = cache.take(ask(random() % 2 == 0 ? node_0 : node_1, size), wanted);
        ++takes;
        ASSERT_TRUE(wanted == contents::as_is || is_filled_with(made, std::byte{0}));
        const auto mark =
            static_cast<std::byte>(number * 50 + static_cast<unsigned>(step) % 50 + 1);
        fill(made, mark);
        held.emplace_back(std::move(made), mark);
      } else if (!held.empty()) {
        auto& last = held.back();
        ASSERT_TRUE(is_filled_with(last.first, last.second));
        cache.give(std::move(last.first));
        held.pop_back();
      }
      if (random() % 200 == 0) {
        cache.trim(random() % (16 * mib));
      }
    }
  };
  std::vector<std::thread> users;
  for (unsigned number = 0; number < 4; ++number) {
    users.emplace_back(use, number);
  }
  for (std::thread& user : users) {
    user.join();
  }
  const buffer_cache_stats stats = cache.stats();
  EXPECT_EQ(stats.hits + stats.misses, takes);
  EXPECT_GT(stats.hits, 0U);
  EXPECT_LE(stats.bytes, options.bytes_max);
  cache.trim(0);
  EXPECT_EQ(machine_.memory().mappings(), 0U);
}

TEST(BufferCache, IsEmptyInAForkedChild) {
  worker_pool pool;
  buffer_cache cache(pool);
  request what;
  what.size_bytes = 4 * mib;
  what.node = pool.topology().nearest_memory_node(pool.topology().nodes().front().id);
  what.pin = pin_policy::none;
  cache.give(pool.allocate(what));
  ASSERT_EQ(cache.stats().buffers, 1U);
  buffer mine = pool.allocate(what);
  const pid_t child = ::fork();
  if (child == 0) {
    boost::system::error_code error;
    const buffer none = cache.take(what, contents::as_is, error);
    cache.give(std::move(mine));
    ::_exit(!none && error == errc::forked_child && cache.trim(0) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(MemoryPressure, IsTheKernelsSomeAverage) {
  EXPECT_EQ(blocks::parse_some_avg10("some avg10=1.53 avg60=0.87 total=0\nfull avg10=9.00\n"),
            1.53);
  EXPECT_EQ(blocks::parse_some_avg10("full avg10=9.00 avg60=0.87\n"), 0);
  EXPECT_EQ(blocks::parse_some_avg10("some avg10=x"), 0);
  EXPECT_EQ(blocks::parse_some_avg10(""), 0);
}

TEST(MemoryPressure, IsTheCgroupsOwnWhereThatSaysIt) {
  tests::text_files files;
  files.put("/proc/pressure/memory", "some avg10=1.00\n");
  files.put("/proc/self/cgroup", "0::/mine\n");
  files.put("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(blocks::memory_pressure(files).some_percent(now), 1);
  files.put("/sys/fs/cgroup/mine/memory.pressure", "some avg10=2.00\n");
  blocks::memory_pressure own(files);
  EXPECT_EQ(own.some_percent(now), 2);
  files.put("/sys/fs/cgroup/mine/memory.pressure", "some avg10=3.00\n");
  EXPECT_EQ(own.some_percent(now + std::chrono::milliseconds(999)), 2) << "once a second";
  EXPECT_EQ(own.some_percent(now + std::chrono::seconds(1)), 3);
}

}  // namespace
}  // namespace numapool
