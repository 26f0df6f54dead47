// SPDX-License-Identifier: Apache-2.0
//
// Goal: each pin policy on a machine with each way of pinning, or none: what was obtained is said with the reason, limits
// are named, a lock limit never stops a CUDA pin, and registrations keep blocks and pages whole.
// Method: the steps of an allocation on simulated machines with a registrar that keeps CUDA's rules.

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/direct_allocation.hpp"

namespace numapool::memory {
namespace {

using test::allocate;
using test::direct_options;
using test::fake_machine;
using test::kib;
using test::machine_plan;
using test::mib;
using test::outcome;
using test::seam_call;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

request ask(pin_policy pin, std::size_t size_bytes = 4 * mib) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node_1;
  what.pin = pin;
  return what;
}

void limit_locks(fake_machine& machine, std::uint64_t limit_bytes) {
  machine.memory().set_abilities({test::thp_rule::always, true, true, limit_bytes});
}

failure refusal(fake_machine& machine, const request& what) {
  const outcome done = allocate(machine, what);
  EXPECT_FALSE(static_cast<bool>(done.result));
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_THAT(machine.registrar().registered(), IsEmpty());
  return done.why;
}

TEST(AutomaticPin, IsCudasWhereThereIsADevice) {
  for (const auto& [route, via] : {std::pair{platform::registrar_route::runtime, pin_route::runtime},
                                   std::pair{platform::registrar_route::driver, pin_route::driver}}) {
    fake_machine machine(machine_plan::two_nodes());
    machine.add_devices({node_0, node_1});
    machine.registrar().set_route(route);
    const outcome done = allocate(machine, ask(pin_policy::automatic));
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pin().asked, pin_policy::automatic);
    EXPECT_EQ(done.result.pin().obtained, pin_kind::cuda);
    EXPECT_EQ(done.result.pin().via, via);
    EXPECT_EQ(machine.registrar().registered().at(0).device, 1) << "the device of the node";
    EXPECT_EQ(machine.memory().locked_bytes(), 0U);
  }
}

TEST(AutomaticPin, IsMlocksWhereThereIsNoCudaAndSaysWhy) {
  fake_machine machine(machine_plan::two_nodes());
  const outcome done = allocate(machine, ask(pin_policy::automatic));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pin().obtained, pin_kind::mlock);
  EXPECT_EQ(done.result.pin().via, pin_route::mlock);
  EXPECT_THAT(done.result.pin().reason, HasSubstr("no CUDA library was found"));
  EXPECT_TRUE(done.result.pin().error.failed());
}

TEST(AutomaticPin, IsMlocksWhereCudaHasNoDevice) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({});
  const outcome done = allocate(machine, ask(pin_policy::automatic));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pin().obtained, pin_kind::mlock);
  EXPECT_THAT(done.result.pin().reason, HasSubstr("no device"));
}

TEST(AutomaticPin, IsNoneWhereTheLockLimitIsTooSmallAndNamesIt) {
  for (const std::uint64_t limit : {std::uint64_t{64 * kib}, std::uint64_t{0}}) {
    fake_machine machine(machine_plan::two_nodes());
    limit_locks(machine, limit);
    const outcome done = allocate(machine, ask(pin_policy::automatic));
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pin().obtained, pin_kind::none);
    EXPECT_EQ(done.result.pin().via, pin_route::none);
    EXPECT_EQ(done.result.pin().error.value(), limit == 0 ? EPERM : ENOMEM);
    EXPECT_THAT(done.result.pin().reason,
                AllOf(HasSubstr("no CUDA library was found"),
                      HasSubstr("RLIMIT_MEMLOCK is " + std::to_string(limit / kib) + " KiB")));
  }
}

TEST(AutomaticPin, IsMlocksWherePlatformsCudaCannotRegisterAtAll) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  machine.registrar().fail_registration(1, 801);  // cudaErrorNotSupported
  const outcome done = allocate(machine, ask(pin_policy::automatic));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pin().obtained, pin_kind::mlock);
  EXPECT_EQ(done.result.pin().via, pin_route::mlock);
  EXPECT_EQ(done.result.pin().error.value(), 801);
  EXPECT_EQ(machine.memory().locked_bytes(), 4 * mib);
  EXPECT_THAT(done.result.registrations(), IsEmpty());
}

TEST(AutomaticPin, FailsWhereCudaRefusesThisRangeForAnotherReason) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  machine.registrar().fail_registration(1, 2);
  EXPECT_EQ(refusal(machine, ask(pin_policy::automatic)).code, errc::registration_failed);
}

TEST(CudaPin, NeverFailsForTheLockLimit) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  limit_locks(machine, 0);
  for (const pin_policy pin : {pin_policy::cuda, pin_policy::automatic}) {
    const outcome done = allocate(machine, ask(pin));
    ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
    EXPECT_EQ(done.result.pin().obtained, pin_kind::cuda);
    EXPECT_THAT(done.result.pin().reason, IsEmpty());
  }
  EXPECT_EQ(machine.faults().count(seam_call::lock_on_fault), 0U);
}

TEST(CudaPin, IsRefusedWithoutCudaBeforeAnythingIsMapped) {
  fake_machine machine(machine_plan::two_nodes());
  const failure why = refusal(machine, ask(pin_policy::cuda));
  EXPECT_EQ(why.code, errc::cuda_unavailable);
  EXPECT_EQ(why.operation, operation::pin);
  EXPECT_THAT(why.message, HasSubstr("no CUDA library was found"));
  EXPECT_EQ(machine.faults().count(seam_call::map), 0U);
}

TEST(CudaPin, IsRefusedForADeviceThatThereIsNot) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  for (const int device : {-1, 2}) {
    request what = ask(pin_policy::cuda);
    what.device = device;
    EXPECT_EQ(refusal(machine, what).code, errc::unknown_device) << device;
  }
}

TEST(CudaPin, GoesToTheDeviceThatIsNamedEvenFarFromTheNode) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  request what = ask(pin_policy::cuda);
  what.device = 0;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(machine.registrar().registered().at(0).device, 0);
  EXPECT_EQ(done.result.device(), 0);
  EXPECT_EQ(done.result.node_reached(), node_1);
}

TEST(MlockPin, LocksWithoutAskingCuda) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const outcome done = allocate(machine, ask(pin_policy::mlock));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(machine.memory().locked_bytes(), 4 * mib);
  EXPECT_EQ(machine.faults().count(seam_call::probe), 0U) << "the question may initialise CUDA";
}

TEST(MlockPin, IsRefusedWithTheLimitNamed) {
  fake_machine machine(machine_plan::two_nodes());
  limit_locks(machine, 64 * kib);
  const failure why = refusal(machine, ask(pin_policy::mlock));
  EXPECT_EQ(why.code, errc::memlock_limit);
  EXPECT_EQ(why.operation, operation::pin);
  EXPECT_EQ(why.cause.value(), ENOMEM);
  EXPECT_THAT(why.message, AllOf(HasSubstr("RLIMIT_MEMLOCK is 64 KiB"), HasSubstr("ulimit -l")));
}

TEST(MlockPin, IsNotBlamedOnTheLimitWhereTheCallIsMissing) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(seam_call::lock_on_fault, ENOSYS);
  const failure why = refusal(machine, ask(pin_policy::mlock));
  EXPECT_EQ(why.code, errc::lock_failed);
  EXPECT_THAT(why.message, testing::Not(HasSubstr("RLIMIT_MEMLOCK")));
}

TEST(NoPin, AsksNobody) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const outcome done = allocate(machine, ask(pin_policy::none));
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.pin().obtained, pin_kind::none);
  EXPECT_EQ(machine.faults().count(seam_call::probe), 0U);
  EXPECT_EQ(machine.faults().count(seam_call::lock_on_fault), 0U);
}

TEST(Chunks, KeepBlocksWholeAndCoverTheBuffer) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  request what = ask(pin_policy::cuda, 20 * mib);
  what.block_stride_bytes = 3 * mib;
  what.chunk_bytes = 7 * mib;
  const outcome done = allocate(machine, what);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  std::size_t covered = 0;
  for (const registration& made : done.result.registrations()) {
    EXPECT_EQ(made.offset_bytes, covered);
    EXPECT_EQ(made.offset_bytes % (3 * mib), 0U);
    covered += made.size_bytes;
  }
  EXPECT_EQ(covered, 20 * mib);
  EXPECT_EQ(done.result.registrations().size(), 4U);
}

TEST(Chunks, AreRefusedForABlockLongerThanARegistrationMayBeBeforeAnythingIsMapped) {
  machine_plan plan = machine_plan::two_nodes();
  plan.kernel = "6.12.0";
  fake_machine machine(plan);
  machine.add_devices({node_1});
  request what = ask(pin_policy::cuda, 2 * mib);
  what.block_stride_bytes = 3 * test::gib;
  what.chunk_bytes = mib;
  EXPECT_EQ(refusal(machine, what).code, errc::invalid_option);
  EXPECT_EQ(machine.faults().count(seam_call::map), 0U);
}

TEST(Chunks, ThatFailHalfwayAreUndone) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  machine.registrar().fail_registration(3, 1);
  request what = ask(pin_policy::cuda, 8 * mib);
  what.chunk_bytes = 2 * mib;
  const failure why = refusal(machine, what);
  EXPECT_EQ(why.code, errc::registration_failed);
  EXPECT_EQ(machine.registrar().history().size(), 2U);
}

TEST(PlainRoute, PinsWithoutANodeOrAPolicy) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  request what = ask(pin_policy::automatic);
  what.node = node_id::unknown;
  what.bind = bind_policy::none;
  what.verify = verify_policy::off;
  direct_options options;
  options.route = route::plain_gate_off;
  options.pinned = false;
  const outcome done = allocate(machine, what, options);
  ASSERT_TRUE(static_cast<bool>(done.result)) << done.why.message;
  EXPECT_EQ(done.result.route(), route::plain_gate_off);
  EXPECT_TRUE(done.result.node_requested().is_unknown());
  EXPECT_TRUE(done.result.node_of_workers().is_unknown());
  EXPECT_EQ(done.result.policy().obtained, bind_kind::none);
  EXPECT_EQ(done.result.pin().obtained, pin_kind::cuda);
  EXPECT_EQ(machine.faults().count(seam_call::bind), 0U);
  EXPECT_EQ(machine.faults().count(seam_call::query_nodes), 0U);
}

}  // namespace
}  // namespace numapool::memory
