// SPDX-License-Identifier: Apache-2.0
//
// Goal: ranges that a driver takes, that share no page and cut no block; the right device; a
// half-done registration leaves nothing, and what a driver does not take back is neither forgotten
// nor unmapped.
// Method: the pure arithmetic in tables, and chunked_registration on a simulated machine.

#include "memory/registration.hpp"

#include <cerrno>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_machine.hpp"

namespace numapool::memory {
namespace {

using test::fake_machine;
using test::gib;
using test::kib;
using test::machine_plan;
using test::mib;
using testing::ElementsAre;
using testing::IsEmpty;

failure register_all(buffer_state& state, int device, std::size_t chunk_bytes) {
  return chunked_registration(state, device, chunk_bytes, 32 * mib).register_rest({});
}

TEST(RegistrationLimit, Is2GibOnTheKernelsThatFailLongerPins) {
  const struct {
    const char* release;
    std::size_t limit_bytes;
  } cases[] = {
      {"6.1.0-18-amd64\n", 64 * gib},   {"6.10.14\n", 64 * gib},
      {"6.11.0-19-generic\n", 2 * gib}, {"6.12.1\n", 2 * gib},
      {"6.13.0-rc7\n", 2 * gib},        {"6.14.0\n", 64 * gib},
      {"5.12.0\n", 64 * gib},           {"61.12.0\n", 64 * gib},
      {"nonsense\n", 64 * gib},         {"6\n", 64 * gib},
  };
  fake_machine machine(machine_plan::one_node());
  for (const auto& given : cases) {
    machine.files().set("/proc/sys/kernel/osrelease", given.release);
    EXPECT_EQ(registration_limit_bytes(machine.platform().files), given.limit_bytes)
        << given.release;
  }
  machine.files().remove("/proc/sys/kernel/osrelease");
  EXPECT_EQ(registration_limit_bytes(machine.platform().files), 64 * gib);
}

TEST(ChunkLength, IsTheWholeRangeUpToTheLimit) {
  const chunk_options options{0, 0, 4096, 64 * gib};
  EXPECT_EQ(chunk_length(options, 4096), 4096U);
  EXPECT_EQ(chunk_length(options, 64 * gib), 64 * gib);
  EXPECT_EQ(chunk_length(options, 64 * gib + 4096), 64 * gib);
  EXPECT_EQ(chunk_length({0, 0, 4096, 2 * gib}, 5 * gib), 2 * gib);
}

TEST(ChunkLength, RoundsDownToPagesAndNeverToNothing) {
  EXPECT_EQ(chunk_length({10'000, 0, 4096, 64 * gib}, gib), 8192U);
  EXPECT_EQ(chunk_length({1, 0, 4096, 64 * gib}, gib), 4096U);
  EXPECT_EQ(chunk_length({5 * mib, 0, 2 * mib, 64 * gib}, gib), 4 * mib)
      << "huge pages are not shared either";
  EXPECT_EQ(chunk_length({100 * gib, 0, 4096, 64 * gib}, gib), 64 * gib)
      << "the limit holds for what is asked too";
}

TEST(ChunkLength, IsWholeBlocksAndWholePages) {
  EXPECT_EQ(chunk_length({64 * mib, 3 * mib, 4096, 64 * gib}, gib), 63 * mib);
  EXPECT_EQ(chunk_length({mib, 3 * mib, 4096, 64 * gib}, gib), 3 * mib) << "one block at least";
  // A block of 5 KiB ends on a page every fourth block.
  EXPECT_EQ(chunk_length({100 * kib, 5 * kib, 4096, 64 * gib}, gib), 100 * kib);
  EXPECT_EQ(chunk_length({99 * kib, 5 * kib, 4096, 64 * gib}, gib), 80 * kib);
}

TEST(ChunkLength, IsEmptyWhenABlockIsLongerThanARegistrationMayBe) {
  EXPECT_FALSE(chunk_length({0, 3 * gib, 4096, 2 * gib}, 8 * gib).has_value());
  EXPECT_FALSE(chunk_length({mib, SIZE_MAX - 1, 4096, 64 * gib}, gib).has_value())
      << "nor does it overflow";
  EXPECT_FALSE(chunk_length({mib, 64 * gib - 1, 4096, 64 * gib}, gib).has_value())
      << "its page multiple is longer";
  EXPECT_EQ(chunk_length({0, 2 * gib, 4096, 2 * gib}, 8 * gib), 2 * gib);
}

// The law behind the table: over many strides, pages and sizes no block straddles two ranges and no
// page is shared.
TEST(ChunkLength, NeverCutsABlockOrAPage) {
  for (std::size_t stride = 1; stride < 40'000; stride = stride * 3 / 2 + 7) {
    for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}, 2 * mib}) {
      for (const std::size_t asked : {std::size_t{1}, 100 * kib, 7 * mib}) {
        const auto length = chunk_length({asked, stride, page, 64 * gib}, gib);
        ASSERT_TRUE(length.has_value());
        EXPECT_EQ(*length % stride, 0U) << stride;
        EXPECT_EQ(*length % page, 0U) << stride;
        EXPECT_TRUE(*length <= asked || *length == std::lcm(stride, page))
            << stride << ' ' << asked;
      }
    }
  }
}

constexpr node_id node_0(0);
constexpr node_id node_1(1);

int choose(fake_machine& machine, node_id node) {
  return choose_device(machine.platform(), *machine.nodes(), node,
                       machine.registrar().probe().device_count);
}

TEST(ChooseDevice, TakesTheNodesOwnWhereNothingHasAContextYet) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1, node_1});
  EXPECT_EQ(choose(machine, node_0), 0);
  EXPECT_EQ(choose(machine, node_1), 1);
}

TEST(ChooseDevice, PrefersOneOfTheNodesThatHasAContext) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1, node_1});
  machine.registrar().set_context(0, true);
  machine.registrar().set_context(2, true);
  EXPECT_EQ(choose(machine, node_1), 2);
}

TEST(ChooseDevice, MakesNoNewContextWhereAnotherNodesDeviceHasOne) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  machine.registrar().set_context(0, true);
  EXPECT_EQ(choose(machine, node_1), 0);
}

TEST(ChooseDevice, TakesTheFirstWhereNoneIsOnTheNode) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_id::unknown});
  EXPECT_EQ(choose(machine, node_1), 0);
}

TEST(ChooseDevice, ManagesWithoutKnowingTheContexts) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  machine.faults().fail_all(test::seam_call::active_devices, ENOSYS);
  EXPECT_EQ(choose(machine, node_1), 1);
}

// A mapped and resident range of `size_bytes`, to be registered.
class resident_range {
 public:
  resident_range(fake_machine& machine, std::size_t size_bytes) : state(machine.platform()) {
    platform::mapping made;
    EXPECT_FALSE(machine.platform().memory.map({size_bytes, 4096, 0}, made));
    state.adopt(made);
    EXPECT_FALSE(machine.platform().memory.touch(made.data, size_bytes, 4096));
  }
  buffer_state state;
};

std::vector<std::size_t> sizes_of(const std::vector<test::fake_registrar::range>& ranges) {
  std::vector<std::size_t> sizes;
  sizes.reserve(ranges.size());
  for (const auto& range : ranges) {
    sizes.push_back(range.size_bytes);
  }
  return sizes;
}

TEST(RegisterAll, CoversTheRangeWithoutGapOrOverlap) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  {
    resident_range range(machine, 10 * mib);
    ASSERT_FALSE(register_all(range.state, 1, 4 * mib));
    EXPECT_THAT(sizes_of(machine.registrar().registered()), ElementsAre(4 * mib, 4 * mib, 2 * mib));
    std::size_t offset = 0;
    for (const registration& made : range.state.registrations) {
      EXPECT_EQ(made.offset_bytes, offset);
      EXPECT_EQ(made.device_pointer,
                range.state.mapped.data + offset + test::fake_registrar::device_pointer_offset);
      offset += made.size_bytes;
    }
    EXPECT_EQ(offset, 10 * mib);
    EXPECT_EQ(machine.registrar().registered().front().device, 1);
    EXPECT_EQ(current_totals().bytes_registered, 10 * mib);
  }
  EXPECT_EQ(current_totals().bytes_registered, 0U);
}

TEST(RegisterAll, IsUndoneInReverse) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  std::byte* data = nullptr;
  {
    resident_range range(machine, 3 * mib);
    data = range.state.mapped.data;
    ASSERT_FALSE(register_all(range.state, 0, mib));
  }
  EXPECT_THAT(machine.registrar().unregistered(), ElementsAre(data + 2 * mib, data + mib, data));
}

TEST(RegisterAll, TakesBackTheFirstPartsWhenALaterOneIsRefused) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  resident_range range(machine, 4 * mib);
  machine.registrar().fail_registration(3, 2);  // cudaErrorMemoryAllocation
  const failure why = register_all(range.state, 0, mib);
  EXPECT_EQ(why.code, errc::registration_failed);
  EXPECT_EQ(why.operation, operation::pin);
  EXPECT_EQ(why.cause.value(), 2);
  EXPECT_EQ(why.size_bytes, mib);
  EXPECT_THAT(machine.registrar().registered(), IsEmpty());
  EXPECT_THAT(range.state.registrations, IsEmpty());
  EXPECT_EQ(machine.registrar().unregistered().size(), 2U);
}

TEST(RegisterAll, StopsAtADriversLimitWithTheCauseAndTheWayOut) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  machine.registrar().set_limit(2 * mib);
  resident_range range(machine, 4 * mib);
  const failure why = register_all(range.state, 0, 4 * mib);
  EXPECT_EQ(why.code, errc::registration_failed);
  EXPECT_THAT(why.message, testing::HasSubstr("smaller chunks"));
}

TEST(Release, KeepsMappedWhatTheDriverDoesNotTakeBackAndCountsIt) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto before = current_totals();
  {
    resident_range range(machine, 2 * mib);
    ASSERT_FALSE(register_all(range.state, 0, mib));
    machine.registrar().fail_unregistrations(true);
  }
  EXPECT_EQ(machine.memory().mappings(), 1U);
  EXPECT_EQ(machine.registrar().registered().size(), 2U);
  EXPECT_EQ(current_totals().release_failures, before.release_failures + 1);
  EXPECT_EQ(current_totals().bytes_registered, before.bytes_registered + 2 * mib);
  machine.registrar().forget();
  machine.memory().forget();
}

TEST(Release, UnregistersTheOthersAlthoughOneIsNotTakenBack) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  {
    resident_range range(machine, 3 * mib);
    ASSERT_FALSE(register_all(range.state, 0, mib));
    machine.faults().fail_nth_of(test::seam_call::unregister_range, 2, EIO);  // the middle one
  }
  EXPECT_EQ(machine.registrar().registered().size(), 1U);
  EXPECT_EQ(machine.memory().mappings(), 1U) << "a device may still write there";
  machine.registrar().forget();
  machine.memory().forget();
}

TEST(Release, UnmapsAfterTheDriverHasGone) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto before = current_totals();
  {
    resident_range range(machine, 2 * mib);
    ASSERT_FALSE(register_all(range.state, 0, mib));
    machine.registrar().set_driver_gone(true);
  }
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_EQ(current_totals().release_failures, before.release_failures);
  EXPECT_EQ(current_totals().bytes_registered, before.bytes_registered);
}

TEST(Release, CountsAMappingThatTheKernelDoesNotTakeBack) {
  fake_machine machine(machine_plan::two_nodes());
  const auto before = current_totals();
  {
    resident_range range(machine, mib);
    machine.faults().fail_nth_of(test::seam_call::unmap, 1, ENOMEM);
  }
  EXPECT_EQ(current_totals().release_failures, before.release_failures + 1);
  EXPECT_EQ(machine.memory().mappings(), 1U);
  machine.memory().forget();
}

TEST(Release, DoesNothingInAForkedChild) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  {
    resident_range range(machine, mib);
    ASSERT_FALSE(register_all(range.state, 0, mib));
    machine.threads().set_generation(1);
  }
  EXPECT_EQ(machine.memory().mappings(), 1U);
  EXPECT_EQ(machine.registrar().registered().size(), 1U);
  machine.registrar().forget();
  machine.memory().forget();
}

}  // namespace
}  // namespace numapool::memory
