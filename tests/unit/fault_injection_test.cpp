// SPDX-License-Identifier: Apache-2.0
//
// Goal: whichever call to the machine fails, an allocation leaves no mapping, registration or
// thread behind, and ends in a typed error or in a buffer that says what it went without. The one
// exception is a call that takes something back: what it did not take stays, and is counted.
// Method: for N = 1, 2, 3, ... the Nth call through the seam fails, from the reading of the
// topology to the end of the pool, until a run in which there was no Nth call. The simulated
// machine's books are checked after each.

#include <cerrno>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/failures.hpp"
#include "memory/buffer_state.hpp"
#include "pool/blocking.hpp"
#include "pool/pool_core.hpp"
#include "support/fault_expectations.hpp"
#include "support/pool_fixture.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

using test::fake_machine;
using test::kib;
using test::machine_plan;
using test::mib;
using test::seam_call;

constexpr node_id node_1(1);

struct scenario {
  const char* name;
  request what;
  machine_plan (*plan)() = &machine_plan::two_nodes;
  bool has_cuda = true;
  bool has_scan = true;
  numapool::route route = route::node_workers;
};

request make_request(void (*change)(request&)) {
  request what;
  what.size_bytes = 4 * mib + 1;
  what.node = node_1;
  change(what);
  return what;
}

const scenario scenarios[] = {
    {"default", make_request([](request&) {})},
    {"without CUDA", make_request([](request&) {}), &machine_plan::two_nodes, false},
    {"old kernel", make_request([](request&) {}), &machine_plan::two_nodes, false, false},
    {"in chunks, for a device", make_request([](request& what) {
       what.node = node_id::unknown;
       what.device = 0;
       what.chunk_bytes = 2 * mib;
       what.block_stride_bytes = 512 * kib;
     })},
    {"strict, base pages, locked", make_request([](request& what) {
       what.bind = bind_policy::strict;
       what.pages = page_policy::base;
       what.pin = pin_policy::mlock;
       what.verify = verify_policy::full;
     })},
    {"huge pages of the pool, CUDA or nothing", make_request([](request& what) {
       what.pages = page_policy::huge_2mib;
       what.pin = pin_policy::cuda;
     })},
    {"fast, several pieces", make_request([](request& what) {
       what.size_bytes = 34 * mib;
       what.populate = populate_mode::fast;
     })},
    {"memory-only node", make_request([](request& what) { what.node = node_id(2); }),
     &machine_plan::memory_only},
    {"plain", make_request([](request& what) {
       what.node = node_id::unknown;
       what.bind = bind_policy::none;
       what.verify = verify_policy::off;
     }),
     &machine_plan::two_nodes, true, true, route::plain_gate_off},
};

// What one run came to, besides what the machine's books say.
struct outcome {
  std::optional<failure> why;  // of the topology or the allocation
  bool was_delivered = false;
};

outcome run_once(fake_machine& machine, const scenario& what,
                 const boost::system::error_code& injected) {
  outcome result;
  try {
    auto& seam = machine.platform();
    const auto nodes =
        std::make_shared<const topology>(topology_builder::read(seam.files, &seam.threads));
    worker_pool_options options;
    options.workers_per_node = 2;
    const auto pool = pool_access::make(seam, nodes, options);
    const buffer made = detail::allocate_and_wait(pool_access::core(*pool), what.what, what.route);
    if (made.why()) {
      result.why = made.why();
      return result;
    }
    result.was_delivered = true;
    EXPECT_EQ(machine.memory().resident_pages(made.data(), made.mapped_bytes()),
              made.mapped_bytes() / 4096);
    if (const auto hit = machine.faults().fired()) {
      pool->shutdown();  // a worker that did nothing may only now look at its mask
      test::expect_degradation_is_named(made, test::stats_of(pool->stats(), made.node_of_workers()),
                                        injected, *hit);
    }
  } catch (const error& thrown) {
    result.why = thrown.why();
  }
  return result;
}

void expect_books_are_empty(fake_machine& machine, std::uint64_t failures_before) {
  const auto hit = machine.faults().fired();
  EXPECT_EQ(machine.threads().live(), 0U);
  const std::uint64_t kept = memory::current_totals().release_failures - failures_before;
  if (hit && test::is_a_release(*hit)) {
    EXPECT_EQ(kept, 1U);
    EXPECT_EQ(machine.memory().mappings(), 1U) << "never unmapped while a driver may know it";
    EXPECT_EQ(machine.registrar().registered().size(),
              *hit == seam_call::unregister_range ? 1U : 0U);
    machine.registrar().forget();
    machine.memory().forget();
    return;
  }
  EXPECT_EQ(kept, 0U);
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_EQ(machine.memory().locked_bytes(), 0U);
  EXPECT_TRUE(machine.registrar().registered().empty());
}

class FaultInjection : public testing::TestWithParam<int> {};

TEST_P(FaultInjection, LeavesNothingAndIsReportedWhicheverCallFails) {
  const boost::system::error_code injected = base::system_error(GetParam());
  for (const scenario& what : scenarios) {
    std::size_t nth = 1;
    for (bool has_fired = true; has_fired && !HasFailure(); ++nth) {
      SCOPED_TRACE(std::string(what.name) + ", call " + std::to_string(nth));
      fake_machine machine(what.plan());
      if (what.has_cuda) {
        machine.add_devices({node_id(0), node_1});
      }
      machine.memory().set_abilities(
          {test::thp_rule::alternate, what.has_scan, what.has_scan, UINT64_MAX});
      const std::uint64_t failures_before = memory::current_totals().release_failures;
      machine.faults().fail_nth(nth, injected.value());
      const outcome result = run_once(machine, what, injected);
      const auto hit = machine.faults().fired();
      has_fired = hit.has_value();
      if (!has_fired) {
        EXPECT_TRUE(result.was_delivered) << (result.why ? result.why->message : "");
      } else if (result.why) {
        test::expect_typed(*result.why, injected, *hit);
      }
      expect_books_are_empty(machine, failures_before);
    }
    EXPECT_GT(nth, 20U) << what.name << ": so few calls cannot be a whole allocation";
  }
}

INSTANTIATE_TEST_SUITE_P(Errno, FaultInjection, testing::Values(EIO, EPERM, ENOMEM, EINVAL),
                         [](const auto& given) { return "errno" + std::to_string(given.param); });

}  // namespace
}  // namespace numapool
