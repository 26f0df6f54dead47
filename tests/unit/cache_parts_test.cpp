// SPDX-License-Identifier: Apache-2.0
//
// Goal: the kernel's pressure files are read as they are, and whatever else is in them is no
// pressure; what is kept is found whatever was taken before; a shared zeroing leaves out nothing
// unless it was stopped, and then says so.
// Method: texts; files of a simulated machine with cgroups; zeroing by hand, without workers.

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/deadline.hpp"
#include "blocks/kept_buffers.hpp"
#include "blocks/memory_pressure.hpp"
#include "blocks/zeroing.hpp"
#include "support/fake_files.hpp"

namespace numapool::blocks {
namespace {

TEST(MemoryPressure, ReadsTheFirstAverageOfSome) {
  EXPECT_EQ(some_average_10("some avg10=12.34 avg60=0.00 avg300=0.00 total=0\nfull avg10=1"),
            12.34);
  EXPECT_EQ(some_average_10("some avg10=0.00"), 0.0);
  EXPECT_EQ(some_average_10("some avg10=100.00 avg60=1"), 100.0);
}

TEST(MemoryPressure, TakesNothingElseForANumber) {
  for (const char* const text : {"", "some", "full avg10=3.00", "some avg10=", "some avg10=x",
                                 "some avg10=-1.00", "some avg10=101", "some avg10=nan"}) {
    EXPECT_EQ(some_average_10(text), std::nullopt) << text;
  }
}

TEST(MemoryPressure, IsTheLargerOfTheMachinesAndTheCgroups) {
  test::fake_files files(nullptr);
  EXPECT_EQ(read_memory_pressure(files), std::nullopt);
  files.set("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
  files.set("/proc/self/mountinfo",
            "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  files.set("/proc/self/cgroup", "0::/app.slice/mine\n");
  files.set("/sys/fs/cgroup/app.slice/mine/memory.pressure", "some avg10=5.00 avg60=0");
  EXPECT_EQ(read_memory_pressure(files), 5.0);
  files.set("/proc/pressure/memory", "some avg10=3.00 avg60=0");
  EXPECT_EQ(read_memory_pressure(files), 5.0);
  files.set("/proc/pressure/memory", "some avg10=7.50 avg60=0");
  EXPECT_EQ(read_memory_pressure(files), 7.5);
  files.remove("/sys/fs/cgroup/app.slice/mine/memory.pressure");
  EXPECT_EQ(read_memory_pressure(files), 7.5);
}

// Without memory: what counts is which is taken when.
kept_buffer& add_to(kept_buffers& all, std::size_t mapped_bytes) {
  auto added = std::make_unique<kept_buffer>();
  kept_buffer& one = *added;
  one.key.mapped_bytes = mapped_bytes;
  all.add(added);
  return one;
}

TEST(KeptBuffers, AreTakenInAnyOrder) {
  kept_buffers all;
  std::vector<kept_buffer*> made;
  for (const std::size_t size : {1U, 2U, 1U, 2U, 1U, 1U}) {
    made.push_back(&add_to(all, size));
  }
  const reuse_key first_key = made[0]->key;
  EXPECT_EQ(all.oldest(), made[0]);
  EXPECT_EQ(all.take(*made[2]).get(), made[2]);  // neither the newest nor the oldest of its key
  EXPECT_EQ(all.take(*made[0]).get(), made[0]);
  EXPECT_EQ(all.take(first_key).get(), made[5]);
  EXPECT_EQ(all.take(*made[3]).get(), made[3]);
  EXPECT_EQ(all.buffers(), 2U);
  EXPECT_EQ(all.take(first_key).get(), made[4]);
  EXPECT_EQ(all.take(first_key), nullptr);
  EXPECT_EQ(all.oldest(), made[1]);
  EXPECT_EQ(all.take(*made[1]).get(), made[1]);
  EXPECT_EQ(all.oldest(), nullptr);
  const kept_buffer* const last = &add_to(all, 1);
  EXPECT_EQ(all.oldest(), last);  // it goes with its owner
}

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr auto never = zeroing::clock::time_point::max();

TEST(Zeroing, SaysWhetherItWasStopped) {
  std::vector<std::byte> memory(3 * mib + 5, std::byte{1});
  const auto whole = std::make_shared<zeroing>(memory.data(), memory.size(), never);
  int pieces = 0;
  while (whole->run_next()) {
    ++pieces;
  }
  whole->wait({});
  EXPECT_EQ(pieces, 4);
  EXPECT_TRUE(whole->is_whole());
  whole->stop();  // too late
  EXPECT_TRUE(whole->is_whole());
  EXPECT_EQ(memory, std::vector<std::byte>(memory.size()));

  memory.assign(memory.size(), std::byte{1});
  const auto stopped = std::make_shared<zeroing>(memory.data(), memory.size(), never);
  EXPECT_TRUE(stopped->run_next());
  stopped->stop();
  stopped->stop();
  EXPECT_FALSE(stopped->run_next());
  stopped->wait({});
  EXPECT_FALSE(stopped->is_whole());
  EXPECT_EQ(memory[mib - 1], std::byte{0});
  EXPECT_EQ(memory[mib], std::byte{1}) << "of pieces that were not begun nothing is touched";
}

TEST(Zeroing, EndsAtItsDeadline) {
  std::vector<std::byte> memory(8 * mib, std::byte{1});
  EXPECT_FALSE(zero_and_wait(memory.data(), memory.size(), nullptr, zeroing::clock::now()));
  EXPECT_TRUE(zero_and_wait(memory.data(), memory.size(), nullptr, never));
  EXPECT_EQ(base::deadline_of(std::chrono::milliseconds(0)), never);
  EXPECT_EQ(base::deadline_of(std::chrono::milliseconds::max()), never);
  EXPECT_GT(base::deadline_of(std::chrono::milliseconds(1)),
            zeroing::clock::now() - std::chrono::hours(1));
}

}  // namespace
}  // namespace numapool::blocks
