// SPDX-License-Identifier: Apache-2.0
//
// Goal: with several registrations each is made as soon as its memory is resident and not before,
// in order, by one thread at a time, and none is forgotten; an interruption between two undoes
// everything. (Other threads' driver calls: driver_turns_test.cpp.)
// Method: the steps in an order that the test chooses, then by many threads at once, on a simulated
// machine.

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/registration.hpp"
#include "support/allocation_fixture.hpp"

namespace numapool::memory {
namespace {

// A mapping of 4 MiB, in pieces of 1 MiB.
class registered_range {
 public:
  explicit registered_range(fake_machine& machine) : state(machine.platform()) {
    platform::mapping mapped;
    EXPECT_FALSE(machine.platform().memory.map({4 * mib, 4096, 0}, mapped));
    state.adopt(mapped);
    EXPECT_FALSE(machine.platform().memory.touch(mapped.data, mapped.size_bytes, 4096));
  }
  buffer_state state;
};

class chunked_registration_test : public testing::Test {
 protected:
  chunked_registration_test() { machine_.add_devices({node_0}); }
  [[nodiscard]] std::size_t registered() const { return machine_.registrar().registered().size(); }

  mutable fake_machine machine_{machine_plan::two_nodes()};
};

TEST_F(chunked_registration_test, MakesWhatIsResidentAndNoMore) {
  registered_range range(machine_);
  chunked_registration registration(range.state, 0, mib, mib);
  EXPECT_TRUE(registration.has_chunks());
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 0U);
  registration.add_resident(1);  // out of order: the first is not there yet
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 0U);
  registration.add_resident(0);
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 2U);
  EXPECT_FALSE(registration.register_rest({}));
  EXPECT_EQ(registered(), 4U);
}

TEST_F(chunked_registration_test, WaitsForEveryPieceOfALongerChunk) {
  registered_range range(machine_);
  chunked_registration registration(range.state, 0, 3 * mib, mib);
  registration.add_resident(0);
  registration.add_resident(1);
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 0U);
  registration.add_resident(2);
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 1U);
  registration.add_resident(3);
  EXPECT_FALSE(registration.register_ready({}));
  EXPECT_EQ(registered(), 2U);
}

TEST_F(chunked_registration_test, ForgetsNoChunkWhenManyThreadsFinishPieces) {
  for (int round = 0; round < 200; ++round) {
    registered_range range(machine_);
    chunked_registration registration(range.state, 0, mib / 2, mib);
    std::atomic<int> ready{0};
    std::vector<std::thread> workers;
    for (std::size_t piece = 0; piece < 4; ++piece) {
      workers.emplace_back([&, piece] {
        for (++ready; ready < 4;) {
        }
        registration.add_resident(piece);
        EXPECT_FALSE(registration.register_ready({}));
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
    ASSERT_EQ(registered(), 8U);
    std::size_t offset = 0;
    for (const auto& made : range.state.registrations) {
      ASSERT_EQ(made.offset_bytes, offset);
      offset += made.size_bytes;
    }
  }
}

TEST_F(chunked_registration_test, StopsBetweenTwoAndUndoesThemWhenInterrupted) {
  registered_range range(machine_);
  chunked_registration registration(range.state, 0, mib, mib);
  int asked = 0;
  const auto interrupted = [&asked]() -> failure {
    return ++asked < 2 ? failure()
                       : failure{errc::cancelled, operation::populate, node_0, 0, {}, "enough"};
  };
  EXPECT_EQ(registration.register_rest(interrupted).code, errc::cancelled);
  EXPECT_EQ(machine_.registrar().history().size(), 2U);
  EXPECT_EQ(registered(), 0U);
}

// vllm-omni#6240: no host registration on this platform.
TEST_F(chunked_registration_test, OfAnAllocationFallsBackToMlockWhereCudaCannotRegister) {
  machine_.faults().fail_all(seam_call::register_range, ENOTSUP);
  request what = ask(node_0, 96 * mib);
  what.chunk_bytes = 32 * mib;
  const outcome done = allocate(machine_, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pin().obtained, pin_kind::mlock);
}

TEST_F(chunked_registration_test, OfAnAllocationIsMadeWhileTheRestIsPopulated) {
  std::vector<std::size_t> registered_before;  // each piece, and the closing call
  machine_.memory().set_populate_hook(
      [&](const std::byte*) { registered_before.push_back(registered()); });
  request what = ask(node_0, 128 * mib);
  what.chunk_bytes = 32 * mib;
  const outcome done = allocate(machine_, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.registrations().size(), 4U);
  ASSERT_EQ(registered_before.size(), 33U);  // pieces of 4 MiB
  for (std::size_t piece = 0; piece < 32; ++piece) {
    EXPECT_EQ(registered_before[piece], piece / 8);
  }
}

}  // namespace
}  // namespace numapool::memory
