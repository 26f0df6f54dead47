// SPDX-License-Identifier: Apache-2.0
//
// Goal: the gate decides the way of pinned storage and nothing else; whichever way, the memory is
// pinned and the handle says how it came.
// Method: the front over simulated machines, with the environment set for each test.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/environment.hpp>
#include <numapool/pinned_storage.hpp>

#include "support/fake_machine.hpp"

namespace numapool {
namespace {

using test::fake_machine;
using test::machine_plan;
using test::mib;

constexpr node_id node_0(0);
constexpr node_id node_1(1);

// The two variables of the gate, unset before and after each test.
class PinnedStorage : public testing::Test {
 protected:
  PinnedStorage() { clear(); }
  ~PinnedStorage() override { clear(); }
  static void open_gate() { ::setenv(environment::enable_numa, "1", 1); }

 private:
  static void clear() {
    ::unsetenv(environment::enable_numa);
    ::unsetenv(environment::disable_numa);
  }
};

TEST_F(PinnedStorage, GoesThroughTheNodesWorkersWithTheGateOpen) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  const auto pool = machine.make_pool();
  open_gate();
  const buffer held = make_pinned_storage(*pool, 3 * mib, 1);
  EXPECT_EQ(held.route(), route::node_workers);
  EXPECT_EQ(held.node_requested(), node_1);
  EXPECT_EQ(held.node_reached(), node_1);
  EXPECT_EQ(held.pin().obtained, pin_kind::cuda);
  EXPECT_EQ(held.device(), 1);
}

TEST_F(PinnedStorage, GoesThePlainWayWithTheGateClosedAndIsStillPinned) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  const auto pool = machine.make_pool();
  const buffer held = make_pinned_storage(*pool, 3 * mib, 1);
  EXPECT_EQ(held.route(), route::plain_gate_off);
  EXPECT_TRUE(held.node_requested().is_unknown());
  EXPECT_TRUE(held.node_reached().is_unknown()) << "nobody looked";
  EXPECT_EQ(held.policy().obtained, bind_kind::none);
  EXPECT_EQ(held.pin().obtained, pin_kind::cuda);
  EXPECT_EQ(machine.registrar().registered().at(0).device, 1);
  EXPECT_EQ(machine.faults().count(test::seam_call::bind), 0U);
  for (const auto& thread : machine.threads().history()) {
    EXPECT_EQ(thread.name, "numapool-any");
    EXPECT_TRUE(thread.cpus.empty()) << "threads that are not pinned";
  }
}

TEST_F(PinnedStorage, GoesThePlainWayWhereTheSuccessorDisables) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto pool = machine.make_pool();
  open_gate();
  ::setenv(environment::disable_numa, "on", 1);
  EXPECT_EQ(make_pinned_storage(*pool, mib, 0).route(), route::plain_gate_off);
}

TEST_F(PinnedStorage, GoesThePlainWayWhereTheNodeIsNotKnown) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  open_gate();
  EXPECT_EQ(make_pinned_storage(*pool, mib).route(), route::plain_node_unknown) << "no device";
  EXPECT_EQ(make_pinned_storage(*pool, mib, 0).route(), route::plain_node_unknown)
      << "no CUDA to ask";
}

TEST_F(PinnedStorage, GoesThePlainWayWhereNotEvenTheGuessIsUsable) {
  machine_plan plan = machine_plan::two_nodes();
  plan.allowed_cpus = "0-3";
  fake_machine machine(plan);
  machine.add_devices({node_id::unknown, node_id::unknown});
  const auto pool = machine.make_pool();
  open_gate();
  const buffer held = make_pinned_storage(*pool, mib, 1);
  EXPECT_EQ(held.route(), route::plain_node_unknown);
  EXPECT_EQ(held.pin().obtained, pin_kind::cuda);
  EXPECT_EQ(make_pinned_storage(*pool, mib, 0).node_source(), node_source::heuristic)
      << "as dynamo guesses";
}

TEST_F(PinnedStorage, LocksOnThePlainWayWhereThereIsNoCuda) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const buffer held = make_pinned_storage(*pool, 2 * mib);
  EXPECT_EQ(held.pin().obtained, pin_kind::mlock);
  EXPECT_EQ(machine.memory().locked_bytes(), 2 * mib);
}

TEST_F(PinnedStorage, FailsAsTheAllocationDoes) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto pool = machine.make_pool();
  for (const bool is_open : {false, true}) {
    if (is_open) {
      open_gate();
    }
    try {
      static_cast<void>(make_pinned_storage(*pool, 0, 0));
      ADD_FAILURE();
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::zero_size);
    }
  }
}

TEST_F(PinnedStorage, LeavesADirectCallAlone) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const auto pool = machine.make_pool();
  ::setenv(environment::disable_numa, "1", 1);
  const buffer held = pool->allocate_pinned_for_gpu(mib, 0);
  EXPECT_EQ(held.route(), route::node_workers);
  EXPECT_EQ(held.node_reached(), node_1);
}

}  // namespace
}  // namespace numapool
