// SPDX-License-Identifier: Apache-2.0
//
// Goal: a handle owns once, moves, frees on any thread and only once, splits by registrations, and
// looks again on demand. Method: buffers from simulated machines; the machines' books say what is
// still there.

#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/direct_allocation.hpp"

namespace numapool {
namespace {

using test::allocate;
using test::fake_machine;
using test::machine_plan;
using test::mib;
using testing::IsEmpty;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

buffer make_buffer(fake_machine& machine, std::size_t size_bytes = 4 * mib,
                   std::size_t chunk_bytes = 0, page_policy pages = page_policy::automatic) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node_1;
  what.chunk_bytes = chunk_bytes;
  what.pages = pages;
  auto done = allocate(machine, what);
  EXPECT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  return std::move(done.result);
}

TEST(Buffer, IsEmptyByDefault) {
  const buffer empty;
  EXPECT_FALSE(static_cast<bool>(empty));
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.size_bytes(), 0U);
  EXPECT_EQ(empty.mapped_bytes(), 0U);
  EXPECT_THAT(empty.span(), IsEmpty());
  EXPECT_TRUE(empty.node_requested().is_unknown());
  EXPECT_TRUE(empty.node_reached().is_unknown());
  EXPECT_TRUE(empty.node_of_workers().is_unknown());
  EXPECT_EQ(empty.workers(), 0U);
  EXPECT_EQ(empty.device(), std::nullopt);
  EXPECT_THAT(empty.registrations(), IsEmpty());
  EXPECT_FALSE(static_cast<bool>(empty.why()));
}

// munmap() of a large range holds up every mmap of the process while it frees the pages.
TEST(BufferRelease, GivesPagesBackInPiecesBeforeItUnmaps) {
  const auto pieces_of = [](fake_machine& machine, std::size_t size_bytes, page_policy pages) {
    buffer held = make_buffer(machine, size_bytes, 0, pages);
    const std::size_t before = machine.faults().count(test::seam_call::dont_need);
    held.reset();
    return machine.faults().count(test::seam_call::dont_need) - before;
  };
  fake_machine machine(machine_plan::two_nodes());
  EXPECT_EQ(pieces_of(machine, 32 * mib, page_policy::base), 0U) << "munmap is quick enough";
  EXPECT_EQ(pieces_of(machine, 100 * mib, page_policy::base), 4U);
  EXPECT_EQ(pieces_of(machine, 100 * mib, page_policy::automatic), 4U);
  machine.faults().fail_all(test::seam_call::dont_need, EINVAL);
  EXPECT_EQ(pieces_of(machine, 100 * mib, page_policy::base), 1U) << "then munmap does it all";
}

TEST(Buffer, IsZeroedAndUsableToItsLastByte) {
  fake_machine machine(machine_plan::two_nodes());
  const buffer held = make_buffer(machine, 3 * mib + 5);
  for (const std::byte one : held.span()) {
    ASSERT_EQ(one, std::byte{0});
  }
  held.data()[held.mapped_bytes() - 1] = std::byte{7};
}

TEST(Buffer, GivesUpItsMemoryWhenMovedFrom) {
  fake_machine machine(machine_plan::two_nodes());
  buffer first = make_buffer(machine);
  std::byte* const data = first.data();
  buffer second = std::move(first);
  EXPECT_FALSE(static_cast<bool>(
      first));  // NOLINT(bugprone-use-after-move): what a moved-from handle is, is the point
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(machine.memory().mappings(), 1U);
}

TEST(Buffer, FreesWhatItHeldWhenAssigned) {
  fake_machine machine(machine_plan::two_nodes());
  buffer first = make_buffer(machine);
  buffer second = make_buffer(machine);
  std::byte* const data = second.data();
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
  EXPECT_EQ(machine.memory().mappings(), 1U);
  first = buffer();
  EXPECT_EQ(machine.memory().mappings(), 0U);
}

TEST(Buffer, SurvivesBeingAssignedToItself) {
  fake_machine machine(machine_plan::two_nodes());
  buffer held = make_buffer(machine);
  buffer& same = held;
  held = std::move(same);
  EXPECT_TRUE(static_cast<bool>(held));
  EXPECT_EQ(machine.memory().mappings(), 1U);
}

TEST(Buffer, IsEmptyAfterResetWhichMayBeRepeated) {
  fake_machine machine(machine_plan::two_nodes());
  buffer held = make_buffer(machine);
  held.reset();
  EXPECT_FALSE(static_cast<bool>(held));
  EXPECT_EQ(machine.memory().mappings(), 0U);
  held.reset();
  EXPECT_EQ(held.data(), nullptr);
}

TEST(Buffer, IsUnregisteredBeforeItIsUnmapped) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  buffer held = make_buffer(machine, 4 * mib, 2 * mib);
  machine.faults().reset();
  held.reset();
  using test::seam_call;
  EXPECT_THAT(machine.faults().trace(),
              testing::ElementsAre(seam_call::unregister_range, seam_call::unregister_range,
                                   seam_call::unmap));
}

TEST(Buffer, MayBeDroppedOnAnotherThread) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  buffer held = make_buffer(machine);
  std::thread([moved = std::move(held)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_THAT(machine.registrar().registered(), IsEmpty());
}

TEST(Buffer, LooksAgainWherePagesAreWhenAsked) {
  fake_machine machine(machine_plan::two_nodes());
  buffer held = make_buffer(machine, 8 * mib);
  EXPECT_EQ(held.node_reached(), node_1);
  machine.memory().migrate(held.data(), held.mapped_bytes() / 4 * 3, node_0);
  EXPECT_EQ(held.node_reached(), node_1) << "the answer of the first look is kept";
  const placement& found = held.remeasure();
  EXPECT_EQ(&found, &held.placement());
  EXPECT_EQ(found.verified, verify_policy::full);
  EXPECT_DOUBLE_EQ(found.share_on_node, 0.25);
  EXPECT_EQ(held.node_reached(), node_0);
  EXPECT_EQ(held.remeasure(verify_policy::off).by, witness::none);
  EXPECT_TRUE(held.node_reached().is_unknown());
}

TEST(Split, CutsWhereRegistrationsEnd) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const buffer held = make_buffer(machine, 8 * mib, 2 * mib);
  const auto pieces = held.split(mib, 4 * mib);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].data(), held.data() + mib);
  EXPECT_EQ(pieces[0].size(), mib);
  EXPECT_EQ(pieces[1].size(), 2 * mib);
  EXPECT_EQ(pieces[2].size(), mib);
  EXPECT_EQ(pieces[2].data(), held.data() + 4 * mib);
}

TEST(Split, GivesOnePieceInsideOneRegistrationAndNoneOfNothing) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const buffer held = make_buffer(machine, 8 * mib, 2 * mib);
  EXPECT_EQ(held.split(2 * mib, 2 * mib).size(), 1U)
      << "exactly one registration touches no neighbour";
  EXPECT_EQ(held.split(8 * mib - 1, 1).size(), 1U);
  EXPECT_THAT(held.split(3 * mib, 0), IsEmpty());
  EXPECT_THAT(held.split(8 * mib, 0), IsEmpty());
  EXPECT_EQ(held.split(0, 8 * mib).size(), 4U);
}

TEST(Split, GivesOnePieceWhereNothingIsRegistered) {
  fake_machine machine(machine_plan::two_nodes());
  const buffer held = make_buffer(machine);
  const auto pieces = held.split(mib, 2 * mib);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].size(), 2 * mib);
  EXPECT_THAT(held.split(0, 0), IsEmpty());
}

using BufferDeathTest = testing::Test;

TEST_F(BufferDeathTest, EndsTheProcessForARangeOutsideAndForAnEmptyHandle) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  fake_machine machine(machine_plan::two_nodes());
  const buffer held = make_buffer(machine);
  EXPECT_DEATH(static_cast<void>(held.split(4 * mib, 1)), "does not hold");
  EXPECT_DEATH(static_cast<void>(held.split(1, SIZE_MAX)), "does not hold");
  EXPECT_DEATH(static_cast<void>(buffer().placement()), "does not hold");
}

TEST(Names, AreThoseOfTheCommandLine) {
  EXPECT_EQ(name(pin_policy::automatic), "auto");
  EXPECT_EQ(name(bind_kind::first_touch), "first-touch");
  EXPECT_EQ(name(witness::get_mempolicy), "get_mempolicy");
  EXPECT_EQ(name(page_kind::hugetlb), "hugetlb");
  EXPECT_EQ(name(route::plain_node_unknown), "plain-node-unknown");
  EXPECT_EQ(name(pin_route::driver), "driver");
}

}  // namespace
}  // namespace numapool
