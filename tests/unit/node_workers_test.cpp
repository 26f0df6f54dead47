// SPDX-License-Identifier: Apache-2.0
//
// Goal: a node's workers start together and pinned, run what is queued in order, share large works
// fairly, and end.
// Method: node_workers alone on a simulated machine; latches, so that no test depends on time.

#include "pool/node_workers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_machine.hpp"

namespace numapool::detail {
namespace {

using test::fake_machine;
using test::machine_plan;
using testing::ElementsAre;
using testing::HasSubstr;

class asio_context : public boost::asio::execution_context {};

// Workers that are stopped and joined at the end.
class running_workers {
 public:
  running_workers(fake_machine& machine, unsigned wanted, node_id node = node_id(1))
      : workers_(machine.platform(), context_,
                 {node, node.is_unknown() ? cpu_set() : machine.nodes()->find(node)->usable_cpus,
                  wanted, [this](const std::string& line) {
                    lines.push_back(line);
                  }}) {}
  ~running_workers() { end(); }
  running_workers(const running_workers&) = delete;
  running_workers& operator=(const running_workers&) = delete;

  node_workers& operator*() noexcept { return workers_; }
  node_workers* operator->() noexcept { return &workers_; }
  void end() {
    workers_.stop();
    workers_.join();
  }
  node_stats stats() {
    node_stats now;
    workers_.add_to(now);
    return now;
  }
  /// Returns when every worker runs a function at once: all of them have started and checked their
  /// masks.
  void meet(std::ptrdiff_t count) {
    std::latch all(count);
    std::latch gone(count);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      enqueue_function(workers_, [&] {
        all.arrive_and_wait();
        gone.count_down();
      });
    }
    gone.wait();
    workers_.wait_idle();
  }

  std::vector<std::string> lines;  // written under the workers' own lock

 private:
  asio_context context_;
  node_workers workers_;
};

// ---- starting

TEST(NodeWorkers, StartAllTogetherNamedAndPinned) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 3);
  EXPECT_EQ(machine.threads().live(), 0U);
  ASSERT_FALSE(workers->start());
  EXPECT_EQ(machine.threads().live(), 3U);
  for (const auto& thread : machine.threads().history()) {
    EXPECT_EQ(thread.name, "numapool-1");
    EXPECT_EQ(thread.cpus.to_list(), "4-7");
  }
  workers.meet(3);
  EXPECT_EQ(workers.stats().workers, 3U);
  EXPECT_EQ(workers.stats().workers_pinned, 3U);
  EXPECT_TRUE(workers->all_pinned());
  EXPECT_EQ(machine.threads().default_policy_calls(), 3U)
      << "an inherited policy would outweigh first touch";
  ASSERT_FALSE(workers->start());
  EXPECT_EQ(machine.threads().live(), 3U) << "starting again starts nothing";
}

TEST(NodeWorkers, OfNoNodeAreNamedSoAndNeverCountAsPinned) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1, node_id::unknown);
  ASSERT_FALSE(workers->start());
  workers.meet(1);
  EXPECT_EQ(machine.threads().history().at(0).name, "numapool-any");
  EXPECT_FALSE(workers->all_pinned());
  EXPECT_EQ(workers.stats().workers_pinned, 0U);
}

TEST(NodeWorkers, AreFewerWhereThreadsAreRefusedAndSaySo) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(2);
  running_workers workers(machine, 4);
  ASSERT_FALSE(workers->start());
  EXPECT_EQ(workers.stats().workers, 2U);
  EXPECT_EQ(workers.stats().workers_wanted, 4U);
  EXPECT_EQ(workers.stats().start_error.value(), EAGAIN);
  EXPECT_THAT(workers.lines, ElementsAre(HasSubstr("2 of 4 threads started")));
  workers.meet(2);
}

TEST(NodeWorkers, FailWhereNoneStartsAndTryAgainLater) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().refuse_after(0);
  running_workers workers(machine, 4);
  const failure why = workers->start();
  EXPECT_EQ(why.code, errc::no_workers);
  EXPECT_EQ(why.operation, operation::start_workers);
  EXPECT_EQ(why.cause.value(), EAGAIN);
  EXPECT_EQ(why.node, node_id(1));
  machine.threads().accept_all();
  ASSERT_FALSE(workers->start());
  EXPECT_EQ(workers.stats().workers, 4U);
  EXPECT_FALSE(workers.stats().start_error) << "the old error is not kept";
}

TEST(NodeWorkers, RunUnpinnedWhereTheMaskIsRefusedAndSaySo) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().set_mask_rule(test::fake_threads::mask_rule::refuse);
  running_workers workers(machine, 2);
  ASSERT_FALSE(workers->start());
  workers.meet(2);
  EXPECT_EQ(workers.stats().workers, 2U);
  EXPECT_EQ(workers.stats().workers_pinned, 0U);
  EXPECT_EQ(workers.stats().start_error.value(), EINVAL);
  EXPECT_FALSE(workers->all_pinned());
  EXPECT_THAT(workers.lines, testing::Contains(HasSubstr("could not be pinned")));
}

TEST(NodeWorkers, CountAsPinnedWhereACpusetCutsTheirMaskWithinTheNode) {
  fake_machine machine(machine_plan::two_nodes());
  machine.threads().set_allowed(cpu_set::parse_list("0-3,6"));
  running_workers workers(machine, 2);
  ASSERT_FALSE(workers->start());
  workers.meet(2);
  EXPECT_EQ(workers.stats().workers_pinned, 2U);
}

TEST(NodeWorkers, DoNotCountAsPinnedWhereTheMaskCannotBeReadBack) {
  fake_machine machine(machine_plan::two_nodes());
  machine.faults().fail_all(test::seam_call::get_affinity, EPERM);
  running_workers workers(machine, 2);
  ASSERT_FALSE(workers->start());
  workers.meet(2);
  EXPECT_EQ(workers.stats().workers_pinned, 0U);
  EXPECT_EQ(workers.stats().start_error.value(), EPERM);
  EXPECT_FALSE(workers->all_pinned());
}

// ---- functions

TEST(NodeWorkers, RunFunctionsInTheirOrderOnOneWorker) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    enqueue_function(*workers, [&order, i] { order.push_back(i); });
  }
  workers->wait_idle();
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(workers.stats().jobs_done, 100U);
}

struct counts_its_end {
  std::atomic<int>* runs;
  std::atomic<int>* abandons;
  void operator()() const { ++*runs; }
  void abandon() const { ++*abandons; }
};

TEST(NodeWorkers, DropWhatIsQueuedWhenStoppedAndEndWhatRuns) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::atomic<int> runs{0};
  std::atomic<int> abandons{0};
  std::latch running(1);
  std::latch may_end(1);
  enqueue_function(*workers, [&] {
    running.count_down();
    may_end.wait();
    ++runs;
  });
  running.wait();
  for (int i = 0; i < 5; ++i) {
    enqueue_function(*workers, counts_its_end{&runs, &abandons});
  }
  EXPECT_EQ(workers.stats().jobs_waiting, 5U);
  workers->stop();
  EXPECT_EQ(abandons, 5);
  enqueue_function(*workers, counts_its_end{&runs, &abandons});
  EXPECT_EQ(abandons, 6) << "what comes later is dropped at once";
  may_end.count_down();
  workers->join();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(workers->start().code, errc::pool_shut_down);
}

TEST(NodeWorkers, DropFunctionsThatAreTooLargeToBeStoredInsideWithTheirMemory) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  workers->stop();
  const auto held = std::make_shared<int>(1);
  struct large {
    std::shared_ptr<int> what;
    std::array<char, 200> padding{};
    void operator()() const {}
  };
  enqueue_function(*workers, large{held});
  EXPECT_EQ(held.use_count(), 1) << "dropped, and not leaked";
}

// ---- pieces

class recorded_work : public piecewise_work {
 public:
  recorded_work(std::string name, std::vector<std::string>& order)
      : name_(std::move(name)), order_(order) {}
  bool run_piece(std::size_t piece) noexcept override {
    order_.push_back(name_ + std::to_string(piece));
    return !on_piece || on_piece(piece);
  }
  void finished() noexcept override {
    order_.push_back(name_ + ".");
    if (on_finished) {
      on_finished();
    }
  }
  std::function<bool(std::size_t)> on_piece;
  std::function<void()> on_finished;

 private:
  const std::string name_;
  std::vector<std::string>& order_;  // written by one worker alone
};

TEST(Pieces, AreEachRunOnceAndThenTheEndOnce) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work work("a", order);
  enqueue_function(*workers, [&] { workers->share(work, 3); });
  workers->wait_idle();
  EXPECT_THAT(order, ElementsAre("a0", "a1", "a2", "a."));
}

TEST(Pieces, OfOneWorkRunOnAllWorkersAtOnce) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 4);
  ASSERT_FALSE(workers->start());
  struct meeting : piecewise_work {
    std::latch all{4};
    std::atomic<int> ends{0};
    bool run_piece(std::size_t) noexcept override {
      all.arrive_and_wait();
      return true;
    }
    void finished() noexcept override { ++ends; }
  } work;
  enqueue_function(*workers, [&] { workers->share(work, 4); });
  workers->wait_idle();
  EXPECT_EQ(work.ends, 1);
}

TEST(Pieces, AreLeftWhereOneSaysSo) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work work("a", order);
  work.on_piece = [](std::size_t piece) {
    return piece != 1;
  };
  enqueue_function(*workers, [&] { workers->share(work, 1000); });
  workers->wait_idle();
  EXPECT_THAT(order, ElementsAre("a0", "a1", "a."));
}

TEST(Pieces, OfASmallWorkDoNotWaitForALargeOne) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work large("L", order);
  recorded_work small("s", order);
  large.on_piece = [&](std::size_t piece) {
    if (piece == 1) {
      workers->share(small, 1);
    }
    return true;
  };
  enqueue_function(*workers, [&] { workers->share(large, 50); });
  workers->wait_idle();
  ASSERT_EQ(order.size(), 53U);
  EXPECT_EQ(order.at(2), "s0") << "the very next piece";
}

TEST(Pieces, OfALargeWorkAreNotStarvedByAStreamOfSmallOnes) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work large("L", order);
  recorded_work small("s", order);
  bool large_ended = false;
  std::size_t smalls = 0;
  constexpr std::size_t too_many = 100'000;
  large.on_finished = [&] {
    large_ended = true;
  };
  // As soon as one small work has ended the next is there, so that there is always one.
  small.on_finished = [&] {
    if (!large_ended && ++smalls < too_many) {
      workers->share(small, 1);
    }
  };
  enqueue_function(*workers, [&] {
    workers->share(large, 20);
    workers->share(small, 1);
  });
  workers->wait_idle();
  EXPECT_TRUE(large_ended);
  EXPECT_LT(smalls, 20U * 20U) << "a piece for at most as many others as it has pieces";
}

TEST(Pieces, AndFunctionsTakeTurns) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work work("p", order);
  work.on_piece = [&](std::size_t piece) {
    if (piece == 0) {
      for (int i = 0; i < 3; ++i) {
        enqueue_function(*workers, [&order] { order.emplace_back("f"); });
      }
    }
    return true;
  };
  enqueue_function(*workers, [&] { workers->share(work, 4); });
  workers->wait_idle();
  EXPECT_THAT(order, ElementsAre("p0", "f", "p1", "f", "p2", "f", "p3", "p."));
}

TEST(Pieces, ThatRunWhenTheWorkersAreStoppedAreRunToTheirEnd) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 1);
  ASSERT_FALSE(workers->start());
  std::vector<std::string> order;
  recorded_work work("a", order);
  std::latch running(1);
  std::latch stopped(1);
  work.on_piece = [&](std::size_t piece) {
    if (piece == 0) {
      running.count_down();
      stopped.wait();
    }
    return true;
  };
  enqueue_function(*workers, [&] { workers->share(work, 3); });
  running.wait();
  workers->stop();
  stopped.count_down();
  workers->join();
  EXPECT_THAT(order, ElementsAre("a0", "a1", "a2", "a."));
}

// The workers that have nothing to do while the last piece runs must hear of its end. Nothing shows
// from outside whether they went back to sleep before it, so they are given a millisecond, and
// several tries; a hang is the failure.
TEST(Pieces, LetIdleWorkersEndWhenTheLastOfThemEndsAfterAStop) {
  fake_machine machine(machine_plan::two_nodes());
  using clock = std::chrono::steady_clock;
  for (int round = 0; round < 20; ++round) {
    running_workers workers(machine, 4);
    ASSERT_FALSE(workers->start());
    workers.meet(4);
    struct held_work : piecewise_work {
      std::latch running{1};
      std::latch may_end{1};
      bool run_piece(std::size_t) noexcept override {
        running.count_down();
        may_end.wait();
        return true;
      }
      void finished() noexcept override {}
    } work;
    enqueue_function(*workers, [&] { workers->share(work, 1); });
    work.running.wait();
    workers->stop();
    for (const auto until = clock::now() + std::chrono::milliseconds(1); clock::now() < until;) {
      std::this_thread::yield();
    }
    work.may_end.count_down();
    workers.end();
  }
}

TEST(WaitIdle, ReturnsOnlyWhenFunctionsAndPiecesHaveEnded) {
  fake_machine machine(machine_plan::two_nodes());
  running_workers workers(machine, 2);
  ASSERT_FALSE(workers->start());
  std::atomic<int> done{0};
  struct counting : piecewise_work {
    explicit counting(std::atomic<int>& count) : ended(count) {}
    std::atomic<int>& ended;
    bool run_piece(std::size_t) noexcept override { return true; }
    void finished() noexcept override { ++ended; }
  };
  for (int round = 0; round < 200; ++round) {
    done = 0;
    counting work(done);
    enqueue_function(*workers, [&] {
      workers->share(work, 8);
      enqueue_function(*workers, [&] { ++done; });
    });
    workers->wait_idle();
    ASSERT_EQ(done, 2);
  }
}

}  // namespace
}  // namespace numapool::detail
