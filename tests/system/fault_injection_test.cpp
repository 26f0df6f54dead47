// SPDX-License-Identifier: Apache-2.0
//
// Goal: as tests/unit/fault_injection_test.cpp, on this kernel and through the real CUDA loader and
// registrar.
// Method: for N = 1, 2, 3, ... the Nth call to the machine fails; then, separately, the Nth call to
// the CUDA library, which is the fake one. After each, the kernel's own lists have no buffer and no
// worker, and the fake no registration.

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/failures.hpp"
#include "fake_cuda_control.h"
#include "memory/buffer_state.hpp"
#include "platform/cuda_registrar.hpp"
#include "pool/pool_core.hpp"
#include "support/fault_expectations.hpp"
#include "support/pool_fixture.hpp"
#include "support/smaps.hpp"
#include "support/task_list.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

using test::fault_injector;
using test::mib;

// This machine with the fake CUDA behind the real registrar. Never destroyed, as the real one: what
// a test could not give back refers to it.
struct machine {
  platform::cuda_registrar registrar;
  platform::platform raw;
  fault_injector faults;

  static platform::cuda_search search() {
    platform::cuda_search only_the_fake;
    only_the_fake.in_process = false;
    only_the_fake.runtime_names = {FAKE_CUDART};
    only_the_fake.driver_name = "";
    return only_the_fake;
  }
  machine()
      : registrar(search()),
        raw{platform::this_machine().files, platform::this_machine().threads,
            platform::this_machine().memory, registrar},
        faults(raw) {}
};

struct outcome {
  std::optional<failure> why;
  bool was_delivered = false;
  node_stats threads;
};

request make_request(bool is_chunked) {
  request what;
  what.size_bytes = 4 * mib;
  what.node = topology::system()->nearest_memory_node(topology::system()->nodes().front().id);
  what.chunk_bytes = is_chunked ? 2 * mib : 0;
  what.pages = is_chunked ? page_policy::base : page_policy::automatic;
  return what;
}

// `look` is called with the buffer and the stats of its threads, when all of them have ended.
template <typename Look>
outcome run_once(machine& here, const request& what, Look&& look) {
  outcome result;
  try {
    auto& seam = here.faults.platform();
    const auto nodes =
        std::make_shared<const topology>(topology_builder::read(seam.files, &seam.threads));
    worker_pool_options options;
    options.workers_per_node = 2;
    const auto pool = pool_access::make(seam, nodes, options);
    boost::system::error_code error;
    const buffer made = pool->allocate(what, error);
    if (error) {
      result.why = made.why();
      return result;
    }
    result.was_delivered = true;
    pool->shutdown();
    look(made, test::stats_of(pool->stats(), made.node_of_workers()));
  } catch (const error& thrown) {
    result.why = thrown.why();
  }
  return result;
}

// As the real ones, a machine outlives every buffer and thread; all stay in reach until the end.
machine& make_machine() {
  static std::vector<std::unique_ptr<machine>>& all = *new std::vector<std::unique_ptr<machine>>;
  return *all.emplace_back(std::make_unique<machine>());
}

void expect_nothing_left(machine& here, const memory::buffer_totals& before) {
  EXPECT_EQ(here.faults.mappings(), 0U);
  EXPECT_EQ(test::areas_kept_from_children(), 0U);
  EXPECT_TRUE(test::tasks_named("numapool-").empty());
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U);
  EXPECT_EQ(memory::current_totals().buffers_live, before.buffers_live);
  EXPECT_EQ(memory::current_totals().bytes_registered, before.bytes_registered);
}

// What a call could not take back is still there, by intent. The test takes it back behind the
// library's back.
void expect_one_kept(machine& here, const memory::buffer_totals& before) {
  EXPECT_EQ(memory::current_totals().release_failures, before.release_failures + 1);
  EXPECT_EQ(here.faults.mappings(), 1U);
  EXPECT_EQ(test::areas_kept_from_children(), 1U);
  EXPECT_TRUE(test::tasks_named("numapool-").empty());
}

void take_back_what_was_kept(machine& here) {
  fake_cuda_range ranges[4];
  const std::size_t count = fake_cuda_registered_ranges(ranges, 4);
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 4); ++i) {
    static_cast<void>(here.registrar.unregister_range(ranges[i].device, ranges[i].address));
  }
  for (const auto& area : test::read_smaps()) {
    if (area.flags.find(" dc ") != std::string::npos) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's text is all there is
      auto* const data = reinterpret_cast<std::byte*>(area.begin);
      const std::size_t size = area.end - area.begin;
      EXPECT_FALSE(here.faults.platform().memory.unmap({data, size, data, size}));
    }
  }
}

class RealFaultInjection : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { fake_cuda_reset(); }
  void TearDown() override { fake_cuda_reset(); }
};

TEST_P(RealFaultInjection, LeavesNothingWhicheverCallToTheMachineFails) {
  const request what = make_request(GetParam());
  for (const int number : {EIO, ENOMEM}) {
    const boost::system::error_code injected = base::system_error(number);
    std::size_t nth = 1;
    for (bool has_fired = true; has_fired && !HasFailure(); ++nth) {
      SCOPED_TRACE("errno " + std::to_string(number) + ", call " + std::to_string(nth));
      machine& here = make_machine();
      const memory::buffer_totals before = memory::current_totals();
      here.faults.fail_nth(nth, number);
      const outcome result =
          run_once(here, what, [&](const buffer& made, const node_stats& threads) {
            EXPECT_EQ(test::area_of(made.data(), made.mapped_bytes()).bytes.at("Rss"),
                      made.mapped_bytes());
            if (const auto hit = here.faults.fired()) {
              test::expect_degradation_is_named(made, threads, injected, *hit);
            }
          });
      const auto hit = here.faults.fired();
      has_fired = hit.has_value();
      if (!has_fired) {
        EXPECT_TRUE(result.was_delivered) << (result.why ? result.why->message : "");
      } else if (result.why) {
        test::expect_typed(*result.why, injected, *hit);
      }
      if (hit && test::is_a_release(*hit)) {
        expect_one_kept(here, before);
        take_back_what_was_kept(here);
      } else {
        expect_nothing_left(here, before);
      }
    }
    EXPECT_GT(nth, 20U);
  }
}

TEST_P(RealFaultInjection, LeavesNothingWhicheverCallToCudaFails) {
  constexpr int unknown_error = 999;
  const request what = make_request(GetParam());
  std::size_t nth = 1;
  for (bool has_fired = true; has_fired && !HasFailure(); ++nth) {
    SCOPED_TRACE("CUDA call " + std::to_string(nth));
    machine& here = make_machine();
    fake_cuda_reset();
    const memory::buffer_totals before = memory::current_totals();
    fake_cuda_fail_nth(nullptr, nth, unknown_error);
    const outcome result = run_once(here, what, [](const buffer& made, const node_stats&) {
      const bool is_said = made.pin().obtained == pin_kind::cuda || !made.pin().reason.empty();
      EXPECT_TRUE(is_said) << "no CUDA pin, and no word of it";
    });
    has_fired = fake_cuda_count(nullptr) >= nth;
    fake_cuda_clear_failures();
    if (!has_fired) {
      EXPECT_TRUE(result.was_delivered) << (result.why ? result.why->message : "");
    } else if (result.why) {
      EXPECT_EQ(&result.why->code.category(), &error_category());
      EXPECT_NE(result.why->operation, operation::none);
      EXPECT_TRUE(result.why->cause.failed()) << result.why->message;
    }
    if (memory::current_totals().release_failures != before.release_failures) {
      expect_one_kept(here, before);
      EXPECT_GE(fake_cuda_registered_ranges(nullptr, 0), 1U)
          << "kept because the driver still knows it";
      take_back_what_was_kept(here);
    } else {
      expect_nothing_left(here, before);
    }
  }
  EXPECT_GT(nth, 5U);
}

INSTANTIATE_TEST_SUITE_P(Pages, RealFaultInjection, testing::Values(false, true),
                         [](const auto& given) { return given.param ? "chunks" : "whole"; });

}  // namespace
}  // namespace numapool
