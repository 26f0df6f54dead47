// SPDX-License-Identifier: Apache-2.0
//
// Goal: a kept buffer is handed out again exactly where the same is asked for, on the node and with
// the contents that are asked for; what is kept goes for each reason, and is counted.
// Method: caches over simulated machines of two nodes, whose own books say where pages are.

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/cache_fixture.hpp"

namespace numapool {
namespace {

using boost::system::error_code;
using test::ask;
using test::cached_pool;
using test::failure_of;
using test::fill;
using test::held_worker;
using test::is_all;
using test::kib;
using test::mib;
using test::one_worker;
using test::pass_time;

constexpr node_id node_0(0);
constexpr node_id node_1(1);
constexpr std::byte written{0x5A};

// ---- contents

TEST(BufferCache, HandsOutAgainWhatItWasGiven) {
  cached_pool on;
  const std::byte* const first = on.use_once(ask(node_0));
  buffer again = on.cache->take(ask(node_0));
  EXPECT_EQ(again.data(), first);
  EXPECT_TRUE(is_all(again, std::byte{0}));
  EXPECT_EQ(on.machine.memory().mappings_made(), 1U);
  const buffer_cache_stats stats = on.cache->stats();
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.kept.buffers, 0U);
}

TEST(BufferCache, LeavesTheContentsWhereThatIsAskedFor) {
  cached_pool on;
  on.use_once(ask(node_0));
  const buffer again = on.cache->take(ask(node_0), contents::as_is);
  EXPECT_TRUE(is_all(again, written));
  EXPECT_EQ(again.timings().total.count(), 0);
  const buffer fresh = on.cache->take(ask(node_0), contents::as_is);
  EXPECT_TRUE(is_all(fresh, std::byte{0})) << "a new one is zeroed all the same";
}

TEST(BufferCache, ZeroesBuffersOfEverySize) {
  cached_pool on;
  for (const std::size_t size : {4 * kib, 2 * mib - 4 * kib, 4 * mib, 4 * mib + 4 * kib, 9 * mib,
                                 33 * mib + 12 * kib, 64 * mib}) {
    const std::byte* const first = on.use_once(ask(node_1, size));
    const buffer again = on.cache->take(ask(node_1, size));
    EXPECT_EQ(again.data(), first);
    EXPECT_TRUE(is_all(again, std::byte{0})) << size;
    EXPECT_GT(again.timings().populate.count(), 0);
  }
}

TEST(BufferCache, WaitsForNoWorkerThatIsBusy) {
  cached_pool on({}, one_worker());
  on.use_once(ask(node_0, 16 * mib));
  held_worker busy(*on.pool, node_0);
  EXPECT_TRUE(is_all(on.cache->take(ask(node_0, 16 * mib)), std::byte{0}));
}

TEST(BufferCache, ZeroesWithoutWorkersAfterAShutdown) {
  cached_pool on;
  on.use_once(ask(node_0, 16 * mib));
  on.pool->shutdown();
  EXPECT_TRUE(is_all(on.cache->take(ask(node_0, 16 * mib)), std::byte{0}));
  error_code error;
  const buffer none = on.cache->take(ask(node_0, 16 * mib), error);
  EXPECT_EQ(error, errc::pool_shut_down);
  EXPECT_FALSE(none);
}

TEST(BufferCache, ServesAWorkerFromWhatIsKeptAlone) {
  cached_pool on;
  on.use_once(ask(node_0, 16 * mib));
  on.pool->submit(node_0, [&] {
    error_code error;
    const buffer kept = on.cache->take(ask(node_0, 16 * mib), error);
    EXPECT_FALSE(error);
    EXPECT_TRUE(is_all(kept, std::byte{0}));
    const buffer none = on.cache->take(ask(node_0, 16 * mib), error);
    EXPECT_EQ(error, errc::called_from_worker);
  });
}

// ---- sizes and other parts of the question

TEST(BufferCache, AnswersSizesOfAsManyPagesAlone) {
  cached_pool on;
  const std::byte* const first = on.use_once(ask(node_0, 5 * kib));
  for (const std::size_t other : {4 * kib, 8 * kib + 1, 12 * kib}) {
    EXPECT_NE(on.cache->take(ask(node_0, other)).data(), first) << other;
  }
  buffer again = on.cache->take(ask(node_0, 8 * kib));
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.size_bytes(), 8 * kib);
  EXPECT_TRUE(is_all(again, std::byte{0})) << "to the end of its last page";
  on.cache->give(std::move(again));
  EXPECT_EQ(on.cache->take(ask(node_0, 4 * kib + 1)).data(), first);
}

TEST(BufferCache, AnswersNothingElseThanWasAsked) {
  const std::vector<std::function<void(request&)>> differences = {
      [](request& what) { what.node = node_1; },
      [](request& what) { what.pages = page_policy::base; },
      [](request& what) { what.pages = page_policy::huge_2mib; },
      [](request& what) { what.pin = pin_policy::none; },
      [](request& what) { what.pin = pin_policy::mlock; },
      [](request& what) { what.bind = bind_policy::strict; },
      [](request& what) { what.bind = bind_policy::none; },
      [](request& what) { what.verify = verify_policy::full; },
      [](request& what) { what.device = 0; },
      [](request& what) { what.device = 1; },
      [](request& what) { what.chunk_bytes = 2 * mib; },
      [](request& what) {
        what.block_stride_bytes = 2 * mib;
      }};
  test::machine_plan plan = test::machine_plan::two_nodes();
  plan.nodes[0].huge_pages = 64;
  cached_pool on({}, {}, plan);
  on.machine.add_devices({node_0, node_1});
  const std::byte* const first = on.use_once(ask(node_0));
  for (const auto& differ : differences) {
    request other = ask(node_0);
    differ(other);
    EXPECT_NE(on.cache->take(other).data(), first);
  }
  request same = ask(node_0);  // only the way there differs
  same.populate = populate_mode::fast;
  same.timeout = std::chrono::hours(1);
  same.huge_page_budget = std::chrono::microseconds(7);
  EXPECT_EQ(on.cache->take(same).data(), first);
}

TEST(BufferCache, RoundsToHugePagesOfThePool) {
  test::machine_plan plan = test::machine_plan::two_nodes();
  plan.nodes[0].huge_pages = 8;
  cached_pool on({}, {}, plan);
  request what = ask(node_0, 3 * mib);
  what.pages = page_policy::huge_2mib;
  const std::byte* const first = on.use_once(what);
  what.size_bytes = 4 * mib;
  EXPECT_EQ(on.cache->take(what).data(), first);
}

TEST(BufferCache, AnswersADeviceAsItWasNamed) {
  cached_pool on;
  on.machine.add_devices({node_0, node_1});
  request device_alone;
  device_alone.size_bytes = 4 * mib;
  device_alone.device = 1;
  const std::byte* const first = on.use_once(device_alone);
  EXPECT_NE(on.cache->take(ask(node_1)).data(), first) << "pinned for no device of its choice";
  const buffer again = on.cache->take(device_alone);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.device(), 1);
  EXPECT_EQ(again.node_requested(), node_1);
  EXPECT_FALSE(again.registrations().empty());
}

TEST(BufferCache, RefusesWhatThePoolRefuses) {
  cached_pool on;
  on.use_once(ask(node_0));
  request late = ask(node_0);
  late.timeout = std::chrono::milliseconds(-1);
  EXPECT_EQ(failure_of([&] { static_cast<void>(on.cache->take(late)); }).code,
            errc::invalid_option);
  const auto code_of = [&](const request& what) {
    return failure_of([&] { static_cast<void>(on.cache->take(what)); }).code;
  };
  EXPECT_EQ(code_of(ask(node_0, 0)), errc::zero_size);
  EXPECT_EQ(code_of(ask(node_0, SIZE_MAX)), errc::size_overflow);
  EXPECT_EQ(code_of(ask(node_id(7))), errc::unknown_node);
  EXPECT_EQ(on.cache->stats().hits, 0U);
}

TEST(BufferCache, RefusesLimitsBelowZero) {
  cached_pool on;
  buffer_cache_options options;
  options.max_age = std::chrono::seconds(-1);
  EXPECT_EQ(failure_of([&] { buffer_cache(*on.pool, options); }).code, errc::invalid_option);
  options = {};
  options.pressure_limit_percent = -1;
  EXPECT_EQ(failure_of([&] { buffer_cache(*on.pool, options); }).code, errc::invalid_option);
}

// ---- what goes, and why

TEST(BufferCacheLimits, TakesTheNewestAndTrimsTheOldest) {
  cached_pool on;
  std::vector<buffer> made;
  std::vector<const std::byte*> where;
  for (int i = 0; i < 4; ++i) {
    made.push_back(on.cache->take(ask(node_0)));
    where.push_back(made.back().data());
  }
  for (buffer& one : made) {
    on.cache->give(std::move(one));
  }
  EXPECT_EQ(on.cache->stats().kept.bytes, 16 * mib);
  EXPECT_EQ(on.cache->trim(13 * mib), 4 * mib);
  EXPECT_EQ(on.cache->trim(12 * mib), 0U);
  std::vector<buffer> again;
  for (int i = 3; i > 0; --i) {
    again.push_back(on.cache->take(ask(node_0)));
    EXPECT_EQ(again.back().data(), where[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(on.cache->stats().trimmed_by_call.buffers, 1U);
  EXPECT_EQ(on.cache->stats().trimmed_by_call.bytes, 4 * mib);
}

TEST(BufferCacheLimits, KeepsNoMoreThanItMay) {
  buffer_cache_options options;
  options.max_bytes = 10 * mib;
  cached_pool on(options);
  buffer small = on.cache->take(ask(node_0, 4 * mib));
  buffer other = on.cache->take(ask(node_1, 4 * mib));
  const std::byte* const kept = other.data();
  buffer third = on.cache->take(ask(node_0, 5 * mib));
  buffer large = on.cache->take(ask(node_0, 11 * mib));
  on.cache->give(std::move(small));
  on.cache->give(std::move(other));
  on.cache->give(std::move(third));
  on.cache->give(std::move(large));
  const buffer_cache_stats stats = on.cache->stats();
  EXPECT_EQ(stats.kept.bytes, 9 * mib);
  EXPECT_EQ(stats.trimmed_by_bytes.buffers, 1U);
  EXPECT_EQ(stats.trimmed_by_bytes.bytes, 4 * mib);
  EXPECT_EQ(stats.refused.bytes, 11 * mib);
  EXPECT_EQ(on.machine.memory().mappings(), 2U);
  EXPECT_EQ(on.cache->take(ask(node_1, 4 * mib)).data(), kept);
}

TEST(BufferCacheLimits, LetsGoWhatIsOld) {
  buffer_cache_options options;
  options.max_age = std::chrono::seconds(10);
  cached_pool on(options);
  buffer first = on.cache->take(ask(node_0));
  buffer second = on.cache->take(ask(node_0));
  on.cache->give(std::move(first));
  pass_time(std::chrono::seconds(6));
  on.cache->give(std::move(second));
  pass_time(std::chrono::seconds(6));
  EXPECT_EQ(on.cache->stats().kept.buffers, 2U) << "nobody has looked";
  on.cache->give(on.cache->take(ask(node_1)));  // a miss
  EXPECT_EQ(on.cache->stats().kept.buffers, 2U);
  EXPECT_EQ(on.cache->stats().trimmed_by_age.buffers, 1U);
  EXPECT_EQ(on.cache->trim_older_than(std::chrono::seconds(6)), 4 * mib);
  EXPECT_EQ(on.cache->trim_older_than(std::chrono::nanoseconds::max()), 0U);
  EXPECT_EQ(on.cache->trim_older_than(std::chrono::nanoseconds::min()), 4 * mib);
  EXPECT_EQ(on.cache->stats().trimmed_by_call.buffers, 2U);
}

constexpr const char* pressure_file = "/proc/pressure/memory";

std::string pressure_of(const std::string& percent) {
  return "some avg10=" + percent +
         " avg60=1.00 avg300=0.10 total=123\nfull avg10=99.00 avg60=0.00 "
         "avg300=0.00 total=12\n";
}

TEST(BufferCacheLimits, LetsHalfGoUnderPressureOnceASecond) {
  buffer_cache_options options;
  options.pressure_limit_percent = 20;
  cached_pool on(options);
  on.machine.files().set(pressure_file, pressure_of("20.00"));
  std::vector<buffer> made(8);
  for (buffer& one : made) {
    one = on.cache->take(ask(node_0));
  }
  pass_time(std::chrono::seconds(2));
  for (buffer& one : made) {
    on.cache->give(std::move(one));
  }
  on.machine.files().set(pressure_file, pressure_of("20.01"));
  on.cache->trim(SIZE_MAX);
  EXPECT_EQ(on.cache->stats().kept.buffers, 8U) << "it looked in this second already";
  pass_time(std::chrono::seconds(1));
  on.cache->trim(SIZE_MAX);
  EXPECT_EQ(on.cache->stats().kept.buffers, 4U);
  EXPECT_EQ(on.cache->stats().trimmed_by_pressure.bytes, 16 * mib);
  for (int i = 0; i < 3; ++i) {
    pass_time(std::chrono::seconds(1));
    on.cache->trim(SIZE_MAX);
  }
  EXPECT_EQ(on.cache->stats().kept.buffers, 0U);
  EXPECT_EQ(on.cache->stats().trimmed_by_pressure.buffers, 8U);
}

TEST(BufferCacheLimits, LooksAtNoPressureWhenTold) {
  buffer_cache_options options;
  options.pressure_limit_percent = 0;
  cached_pool on(options);
  on.machine.files().set(pressure_file, pressure_of("100.00"));
  pass_time(std::chrono::seconds(2));
  on.use_once(ask(node_0));
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
}

// A node so full that two requests do not fit at once.
struct narrow_pool : cached_pool {
  narrow_pool() : cached_pool({}, without_reserve()) {
    machine.memory().set_free(node_id(0), 20 * mib);
    machine.memory().set_free(node_id(1), 20 * mib);
  }
  static worker_pool_options without_reserve() {
    worker_pool_options options;
    options.reserve_bytes = 0;
    return options;
  }
  static request strictly(node_id node, std::size_t size_bytes) {
    request what = ask(node, size_bytes);
    what.bind = bind_policy::strict;
    return what;
  }
};

TEST(BufferCacheLimits, MakesRoomForWhatIsAskedFor) {
  narrow_pool on;
  on.use_once(on.strictly(node_0, 12 * mib));
  on.use_once(on.strictly(node_1, 12 * mib));
  const buffer other_size = on.cache->take(on.strictly(node_0, 16 * mib));
  EXPECT_EQ(other_size.mapped_bytes(), 16 * mib);
  EXPECT_EQ(on.cache->stats().trimmed_for_room.buffers, 1U);
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U) << "another node's is in nobody's way";
  error_code error;
  EXPECT_FALSE(on.cache->take(on.strictly(node_0, 64 * mib), error));
  EXPECT_EQ(error, errc::out_of_node_memory);
}

TEST(BufferCacheLimits, LetsEverythingGoAtItsEnd) {
  cached_pool on;
  on.use_once(ask(node_0));
  on.use_once(ask(node_1));
  on.cache->clear();
  EXPECT_EQ(on.machine.memory().mappings(), 0U);
  on.use_once(ask(node_1));
  buffer outlives = on.cache->take(ask(node_0));
  on.cache.reset();
  on.pool.reset();
  EXPECT_EQ(on.machine.memory().mappings(), 1U);
  fill(outlives, written);
}

TEST(BufferCacheFork, GivesNothingOutInAChild) {
  cached_pool on;
  on.use_once(ask(node_0));
  buffer parents = on.cache->take(ask(node_1));
  on.machine.threads().set_generation(1);
  error_code error;
  EXPECT_FALSE(on.cache->take(ask(node_0), error));
  EXPECT_EQ(error, errc::forked_child);
  EXPECT_EQ(on.cache->stats().hits + on.cache->stats().kept.buffers, 0U);
  on.cache->give(std::move(parents));
  on.cache->clear();
  on.cache->trim_older_than({});
  on.machine.threads().set_generation(0);
  EXPECT_EQ(on.cache->stats().kept.buffers, 1U);
  EXPECT_EQ(on.machine.memory().mappings(), 2U) << "the parent's are not the child's to unmap";
  on.cache->clear();
  on.machine.memory().forget();
}

}  // namespace
}  // namespace numapool
