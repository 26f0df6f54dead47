// SPDX-License-Identifier: Apache-2.0
//
// Goal: the pool starts what it needs when it is needed, says what it got, sends each request to
// the right node, refuses what cannot work with the right code.
// Method: pools over simulated machines.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "pool/pool_core.hpp"
#include "support/pool_fixture.hpp"

namespace numapool {
namespace {

using namespace std::chrono_literals;
using test::ask;
using test::failure_of;
using test::fake_machine;
using test::gib;
using test::machine_plan;
using test::mib;
using test::one_worker;
using test::stats_of;
using testing::HasSubstr;

constexpr node_id node_0(0);
constexpr node_id node_1(1);
constexpr node_id node_2(2);

unsigned wanted_on(fake_machine& machine, const worker_pool_options& options = {}) {
  return stats_of(machine.make_pool(options)->stats(), machine.nodes()->nodes().front().id)
      .workers_wanted;
}

// ---- spinning

std::chrono::nanoseconds caller_spin_on(const machine_plan& plan, std::chrono::microseconds asked) {
  fake_machine machine(plan);
  worker_pool_options options = one_worker();
  options.caller_spin = asked;
  const auto pool = machine.make_pool(options);
  return detail::caller_spin_of(
      detail::workers_of(pool_access::core(*pool), machine.nodes()->nodes().front().id));
}

TEST(Spinning, IsAskedForAndBoundedAndNeverOnOneCpu) {
  const machine_plan several = machine_plan::one_node();
  EXPECT_EQ(caller_spin_on(several, worker_pool_options().caller_spin), 0us);
  EXPECT_EQ(caller_spin_on(several, 50us), 50us);
  EXPECT_EQ(caller_spin_on(several, 1h), worker_pool_options::spin_max);
  EXPECT_EQ(caller_spin_on(several, -1us), 0us);
  machine_plan one = several;
  one.allowed_cpus = "2";
  EXPECT_EQ(caller_spin_on(one, 50us), 0us) << "the worker could not run meanwhile";
}

TEST(Spinning, ChangesNothingButTheTime) {
  fake_machine machine(machine_plan::two_nodes());
  worker_pool_options options;
  options.workers_per_node = 2;
  options.worker_spin = 1ms;
  options.caller_spin = 1ms;
  const auto pool = machine.make_pool(options);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(pool->submit(node_0, [i] { return i; }), i);
  }
  ASSERT_TRUE(pool->allocate(ask(node_0, 4 * mib)));
  pool->drain();
  EXPECT_EQ(stats_of(pool->stats(), node_0).jobs_waiting, 0U);
}

// ---- threads

TEST(WorkerPool, StartsNoThreadBeforeANodeIsUsedAndThenAllOfThatNode) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  EXPECT_EQ(machine.threads().live(), 0U);
  static_cast<void>(pool->stats());
  EXPECT_EQ(machine.threads().live(), 0U);
  static_cast<void>(pool->executor(node_1));
  EXPECT_EQ(machine.threads().live(), 4U);
  for (const auto& thread : machine.threads().history()) {
    EXPECT_EQ(thread.name, "numapool-1");
    EXPECT_EQ(thread.cpus.to_list(), "4-7");
  }
}

TEST(WorkerPool, IsAsLargeAsTheNodeTheQuotaAndTheCeilingAllow) {
  machine_plan plan = machine_plan::one_node();
  fake_machine small(plan);
  EXPECT_EQ(wanted_on(small), 4U);
  small.set_cpu_quota("250000 100000");
  EXPECT_EQ(wanted_on(small), 2U);
  small.set_cpu_quota("50000 100000");
  EXPECT_EQ(wanted_on(small), 1U);
  plan.nodes[0].cpus = "0-63";
  fake_machine large(plan);
  EXPECT_EQ(wanted_on(large), 16U);
  large.set_cpu_quota("800000 100000");
  EXPECT_EQ(wanted_on(large), 8U);
  plan.allowed_cpus = "5,7,9";
  fake_machine narrowed(plan);
  EXPECT_EQ(wanted_on(narrowed), 3U);
}

TEST(WorkerPool, IsAsLargeAsItsOptionsSay) {
  fake_machine machine(machine_plan::one_node());
  worker_pool_options options;
  options.workers_per_node = 24;
  EXPECT_EQ(wanted_on(machine, options), 24U);
}

TEST(WorkerPool, KeepsItsThreadsToTheCpusThatTheProcessMayUse) {
  machine_plan plan = machine_plan::two_nodes();
  plan.allowed_cpus = "0,5-6";
  fake_machine machine(plan);
  const auto pool = machine.make_pool();
  static_cast<void>(pool->executor(node_1));
  ASSERT_EQ(machine.threads().history().size(), 2U);
  EXPECT_EQ(machine.threads().history().at(0).cpus.to_list(), "5-6");
}

TEST(WorkerPool, ListsNodesWithUsableCpusAndThenTheUnpinnedGroup) {
  fake_machine machine(machine_plan::memory_only());
  const auto pool = machine.make_pool();
  const pool_stats all = pool->stats();
  ASSERT_EQ(all.nodes.size(), 3U);
  EXPECT_EQ(all.nodes[0].node, node_0);
  EXPECT_EQ(all.nodes[1].node, node_1);
  EXPECT_TRUE(all.nodes[2].node.is_unknown());
}

TEST(WorkerPool, WorksWithFewerThreadsAndSaysSo) {
  static std::vector<std::string> lines;
  lines.clear();
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(1);
  worker_pool_options options;
  options.log = [](const char* line) {
    lines.emplace_back(line);
  };
  const auto pool = machine.make_pool(options);
  const buffer held = pool->allocate(ask(node_0));
  EXPECT_EQ(held.workers(), 1U);
  const pool_stats all = pool->stats();
  EXPECT_EQ(stats_of(all, node_0).workers, 1U);
  EXPECT_EQ(stats_of(all, node_0).workers_wanted, 4U);
  EXPECT_EQ(stats_of(all, node_0).start_error.value(), EAGAIN);
  EXPECT_THAT(lines, testing::Contains(HasSubstr("1 of 4 threads started")));
}

TEST(WorkerPool, SaysNoWorkersWhereNoThreadStartsAndWorksLater) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(0);
  const auto pool = machine.make_pool();
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->executor(node_0)); }).code, errc::no_workers);
  const failure why = failure_of([&] { static_cast<void>(pool->allocate(ask(node_0))); });
  EXPECT_EQ(why.code, errc::no_workers);
  EXPECT_EQ(why.operation, operation::start_workers);
  EXPECT_EQ(why.cause.value(), EAGAIN);
  EXPECT_EQ(why.size_bytes, 4 * mib);
  EXPECT_EQ(failure_of([&] { pool->submit(node_0, [] {}); }).code, errc::no_workers);
  machine.threads().accept_all();
  EXPECT_TRUE(static_cast<bool>(pool->allocate(ask(node_0))));
}

TEST(WorkerPool, StartsANodesThreadsOnceWhenManyUseItFirst) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  constexpr std::ptrdiff_t count = 8;
  std::latch ready(count);
  {
    std::vector<std::jthread> threads;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        ready.arrive_and_wait();
        EXPECT_EQ(pool->submit(node_0, [] { return 5; }), 5);
      });
    }
  }
  EXPECT_EQ(machine.threads().history().size(), 4U);
}

// ---- where requests go

TEST(WorkerPool, ServesANodeWithoutCpusFromTheNearestThatHasSome) {
  fake_machine machine(machine_plan::memory_only());
  const auto pool = machine.make_pool();
  EXPECT_EQ(pool->executor(node_2), pool->executor(node_1));
  EXPECT_NE(pool->executor(node_2), pool->executor(node_0));
  const buffer held = pool->allocate(ask(node_2));
  EXPECT_EQ(held.node_of_workers(), node_1);
  EXPECT_EQ(held.node_reached(), node_2);
}

TEST(WorkerPool, RefusesUnknownNodes) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  for (const node_id node : {node_id(9), node_id::unknown}) {
    EXPECT_EQ(failure_of([&] { static_cast<void>(pool->executor(node)); }).code,
              errc::unknown_node);
    EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(ask(node))); }).code,
              errc::unknown_node);
    EXPECT_EQ(failure_of([&] { pool->submit(node, [] {}); }).code, errc::unknown_node);
  }
  EXPECT_EQ(machine.threads().live(), 0U);
}

TEST(WorkerPool, FindsTheNodeOfADevice) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1, node_0});
  const auto pool = machine.make_pool();
  request what = ask(node_id::unknown);
  what.device = 1;
  const buffer held = pool->allocate(what);
  EXPECT_EQ(held.node_requested(), node_0);
  EXPECT_EQ(held.node_reached(), node_0);
  EXPECT_EQ(held.device(), 1);
  EXPECT_EQ(machine.registrar().registered().at(0).device, 1);
  what.device = 0;
  EXPECT_EQ(pool->allocate(what).node_reached(), node_1);
}

TEST(WorkerPool, TakesTheNamedNodeBeforeTheDevices) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_1});
  const auto pool = machine.make_pool();
  request what = ask(node_0);
  what.device = 0;
  EXPECT_EQ(pool->allocate(what).node_reached(), node_0);
}

TEST(WorkerPool, SaysWhichDeviceItCannotPlace) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  request what = ask(node_id::unknown);
  what.device = 0;
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(what)); }).code, errc::unknown_device)
      << "no CUDA";
  machine.add_devices({node_id::unknown});
  what.bind = bind_policy::strict;
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(what)); }).code, errc::unknown_node)
      << "sysfs says -1";
  what.device = 3;
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(what)); }).code,
            errc::unknown_device);
}

std::vector<std::string> logged;  // the pool's log function is a plain one

TEST(WorkerPool, TakesTheGuessOnlyWhereItIsNotStrictAndSaysSo) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_id::unknown, node_id::unknown});
  logged.clear();
  worker_pool_options options;
  options.log = [](const char* line) {
    logged.emplace_back(line);
  };
  const auto pool = machine.make_pool(options);
  request what = ask(node_id::unknown);
  what.device = 1;
  const buffer held = pool->allocate(what);
  EXPECT_EQ(held.node_reached(), node_1);
  EXPECT_EQ(held.node_source(), node_source::heuristic);
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_THAT(logged[0], HasSubstr("CUDA device 1: NumaNode(1) is taken, which is a guess"));
  what.bind = bind_policy::strict;
  const failure why = failure_of([&] { static_cast<void>(pool->allocate(what)); });
  EXPECT_EQ(why.code, errc::unknown_node);
  EXPECT_THAT(why.message, HasSubstr("numa_node is '-1'"));
}

TEST(WorkerPool, PlacesOnTheDevicesOwnNodeThoughItsCpusAreNotAllowed) {
  machine_plan plan = machine_plan::two_nodes();
  plan.allowed_cpus = "4-7";
  fake_machine machine(plan);
  machine.add_devices({node_0});
  const auto pool = machine.make_pool();
  request what = ask(node_id::unknown);
  what.device = 0;
  const buffer held = pool->allocate(what);
  EXPECT_EQ(held.node_reached(), node_0);
  EXPECT_EQ(held.node_of_workers(), node_1);
  EXPECT_EQ(held.node_source(), node_source::sysfs);
}

TEST(WorkerPool, PlacesBesideAGpusOwnMemoryAndNotInIt) {
  fake_machine machine(machine_plan::gpu_memory());
  machine.add_devices({node_id(10)});
  const auto pool = machine.make_pool();
  request what = ask(node_id::unknown);
  what.device = 0;
  const node_id reached = pool->allocate(what).node_reached();
  EXPECT_TRUE(reached == node_0 || reached == node_1) << reached;
}

TEST(WorkerPool, AsksNoCudaForADeviceThatItNeedNotPinFor) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0});
  const auto pool = machine.make_pool();
  request what = ask(node_id::unknown);
  what.device = 0;
  for (const pin_policy pin : {pin_policy::none, pin_policy::mlock}) {
    what.pin = pin;
    EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(what)); }).code,
              errc::unknown_device)
        << "its files show no GPU";
    EXPECT_EQ(machine.faults().count(test::seam_call::pci_address), 0U);
  }
}

TEST(WorkerPool, FindsADevicesNodeWhereThereIsOnlyOne) {
  fake_machine machine(machine_plan::one_node());
  machine.add_devices({node_id::unknown});
  const auto pool = machine.make_pool();
  EXPECT_EQ(pool->allocate_pinned_for_gpu(mib, 0).node_reached(), node_0);
}

TEST(WorkerPool, AllocatesForAGpuAsDynamoDoes) {
  fake_machine machine(machine_plan::two_nodes());
  machine.add_devices({node_0, node_1});
  const auto pool = machine.make_pool();
  const buffer held = pool->allocate_pinned_for_gpu(3 * mib, 1);
  EXPECT_EQ(held.node_reached(), node_1);
  EXPECT_EQ(held.pin().obtained, pin_kind::cuda);
  boost::system::error_code error;
  EXPECT_FALSE(static_cast<bool>(pool->allocate_pinned_for_gpu(mib, 7, error)));
  EXPECT_EQ(error, errc::unknown_device);
  EXPECT_FALSE(static_cast<bool>(pool->allocate_pinned_for_gpu(0, 1, error)));
  EXPECT_EQ(error, errc::zero_size);
}

TEST(DefaultTimeout, IsDynamosButNeverLessThanTheSizeNeeds) {
  const struct {
    std::size_t size_bytes;
    std::chrono::seconds expected;
  } cases[] = {{0, 10s},          {1, 10s},          {gib - 1, 10s},     {gib, 11s},
               {5 * gib, 15s},    {10 * gib, 20s},   {11 * gib, 22s},    {100 * gib, 200s},
               {150 * gib, 300s}, {290 * gib, 580s}, {1024 * gib, 2048s}};
  for (const auto& one : cases) {
    EXPECT_EQ(worker_pool::default_timeout(one.size_bytes), one.expected)
        << one.size_bytes / gib << " GiB";
  }
}

// ---- the two forms of an error

TEST(WorkerPool, GivesTheDetailsInTheEmptyBufferOrInTheException) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  boost::system::error_code error;
  const buffer refused = pool->allocate(ask(node_0, 0), error);
  EXPECT_EQ(error, errc::zero_size);
  EXPECT_FALSE(static_cast<bool>(refused));
  EXPECT_EQ(refused.why().code, errc::zero_size);
  EXPECT_EQ(refused.why().operation, operation::resolve);
  EXPECT_EQ(refused.why().node, node_0);
  EXPECT_FALSE(refused.why().message.empty());
  const buffer fine = pool->allocate(ask(node_0), error);
  EXPECT_FALSE(error);
  EXPECT_FALSE(static_cast<bool>(fine.why()));
  EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(ask(node_0, 0))); }).message,
            refused.why().message);
}

TEST(WorkerPool, CountsWhatItDid) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  const auto before = pool->stats();
  {
    const buffer held = pool->allocate(ask(node_1));
    boost::system::error_code error;
    machine.faults().fail_nth_of(test::seam_call::map, 1, ENOMEM);
    static_cast<void>(pool->allocate(ask(node_1), error));
    EXPECT_EQ(error, errc::out_of_memory);
    pool->submit(node_1, [] {});
    pool->drain();
    const auto after = pool->stats();
    EXPECT_EQ(stats_of(after, node_1).allocations_done, 1U);
    EXPECT_EQ(stats_of(after, node_1).allocations_failed, 1U);
    EXPECT_EQ(stats_of(after, node_1).allocations_waiting, 0U);
    EXPECT_GE(stats_of(after, node_1).jobs_done, 1U);
    EXPECT_EQ(stats_of(after, node_0).allocations_done, 0U);
    EXPECT_EQ(after.buffers_live, before.buffers_live + 1);
    EXPECT_EQ(after.bytes_mapped, before.bytes_mapped + 4 * mib);
  }
  EXPECT_EQ(pool->stats().buffers_live, before.buffers_live);
  EXPECT_EQ(pool->stats().bytes_mapped, before.bytes_mapped);
}

// ---- submit, blocking

TEST(Submit, ReturnsResultsAndThrowsExceptions) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  EXPECT_EQ(pool->submit(node_1, [&] { return machine.threads().current_node(); }), node_1);
  EXPECT_EQ(*pool->submit(node_0, [] { return std::make_unique<int>(4); }), 4);
  bool ran = false;
  pool->submit(node_0, [&ran] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_THROW(pool->submit(node_0, []() -> int { throw std::out_of_range("mine"); }),
               std::out_of_range);
  EXPECT_THROW(pool->submit(node_0, [] { throw 3; }), int);
}

TEST(Submit, RunsAtOnceOnAWorkerOfTheSameNode) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  // With one worker, waiting for it would be for ever.
  const auto inner = pool->submit(
      node_0, [&] { return pool->submit(node_0, [] { return std::this_thread::get_id(); }); });
  EXPECT_NE(inner, std::this_thread::get_id());
  EXPECT_EQ(inner, pool->submit(node_0, [] { return std::this_thread::get_id(); }));
}

TEST(Submit, GoesToAnotherNodesWorkerFromAWorker) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool(one_worker());
  EXPECT_EQ(
      pool->submit(
          node_0,
          [&] { return pool->submit(node_1, [&] { return machine.threads().current_node(); }); }),
      node_1);
}

// ---- calls that could wait for themselves

TEST(WorkerPool, RefusesToBlockOnItsOwnWorkers) {
  fake_machine machine(machine_plan::two_nodes());
  const auto pool = machine.make_pool();
  pool->submit(node_0, [&] {
    boost::system::error_code error;
    EXPECT_FALSE(static_cast<bool>(pool->allocate(ask(node_1), error)));
    EXPECT_EQ(error, errc::called_from_worker);
    EXPECT_EQ(failure_of([&] { static_cast<void>(pool->allocate(ask(node_0))); }).code,
              errc::called_from_worker);
    EXPECT_EQ(failure_of([&] { pool->drain(); }).code, errc::called_from_worker);
  });
  const auto other = machine.make_pool();
  pool->submit(node_0, [&] {
    EXPECT_TRUE(static_cast<bool>(other->allocate(ask(node_0)))) << "another pool's may";
  });
}

}  // namespace
}  // namespace numapool
