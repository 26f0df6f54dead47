// SPDX-License-Identifier: Apache-2.0
//
// Goal: functions leave the queue in the order in which they came, each once; what was run is used
// again; and no wake is lost, however many sleep and wake at once.
// Method: the queue and the sleepers alone, on threads of this test. A lost job or wake is a hang,
// and the test's time limit its failure.

#include "pool/job_queue.hpp"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "pool/sleepers.hpp"

namespace numapool::detail {
namespace {

job& push_one(job_queue& queue) {
  job& added = queue.acquire();
  EXPECT_TRUE(queue.push(added, false));
  return added;
}

TEST(JobQueue, IsFirstInFirstOutAcrossItsTwoHalves) {
  job_queue queue;
  std::vector<job*> pushed;
  std::vector<job*> popped;
  pushed.reserve(6);
  popped.reserve(6);
  for (int i = 0; i < 3; ++i) {
    pushed.push_back(&push_one(queue));
  }
  popped.push_back(queue.pop_first());  // the other two are in the outbox now
  for (int i = 0; i < 3; ++i) {
    pushed.push_back(&push_one(queue));
  }
  EXPECT_EQ(queue.waiting(), 5U);
  while (job* const next = queue.pop_first()) {
    popped.push_back(next);
  }
  EXPECT_EQ(popped, pushed);
  EXPECT_TRUE(queue.looks_empty());
  for (job* const unused : popped) {
    job_queue::abandon(*unused);
  }
}

TEST(JobQueue, IsIdleOnceEverythingThatWasPushedHasEnded) {
  job_queue queue;
  EXPECT_TRUE(queue.is_idle());
  push_one(queue);
  EXPECT_FALSE(queue.is_idle());
  job* const taken = queue.pop_first();
  EXPECT_TRUE(queue.looks_empty());
  EXPECT_FALSE(queue.is_idle()) << "it runs";
  EXPECT_EQ(queue.pop_next(taken), nullptr);
  EXPECT_TRUE(queue.is_idle());
  push_one(queue);
  queue.end_one(queue.pop_first());
  EXPECT_TRUE(queue.is_idle());
}

TEST(JobQueue, HandsOutWhatWasUsed) {
  job_queue queue;
  std::set<job*> seen;
  job* used = nullptr;
  for (int i = 0; i < 1000; ++i) {
    push_one(queue);
    job* const taken = used == nullptr ? queue.pop_first() : queue.pop_next(used);
    seen.insert(taken);
    used = taken;
  }
  queue.end_one(used);
  EXPECT_LE(seen.size(), 4U) << "each round made a new one";
}

TEST(JobQueue, TakesNoMoreOnceClosedExceptAlways) {
  job_queue queue;
  job& first = push_one(queue);
  job& second = push_one(queue);
  job_list left;
  queue.close(left);
  EXPECT_EQ(&left.pop(), &first);
  EXPECT_EQ(&left.pop(), &second);
  EXPECT_TRUE(left.empty());
  EXPECT_TRUE(queue.is_idle()) << "what was handed out is no longer the queue's";
  job& late = queue.acquire();
  EXPECT_FALSE(queue.push(late, false));
  EXPECT_TRUE(queue.push(late, true));
  EXPECT_EQ(queue.pop_first(), &late);
  EXPECT_EQ(queue.pop_next(&late), nullptr);
  job_queue::abandon(first);
  job_queue::abandon(second);
}

TEST(JobQueue, IsAbandonedWithWhatWasNeverUsed) {
  job_queue queue;
  job& unused = queue.acquire();
  job_queue::abandon(unused);
  EXPECT_EQ(&queue.acquire(), &unused) << "the thread keeps it";
  job_queue::abandon(unused);
}

// Several threads push and several pop and sleep, as posters and workers do.
TEST(Sleepers, MissNothingThatIsPushed) {
  constexpr int pushers = 3;
  constexpr int poppers = 3;
  constexpr int each = 20'000;
  job_queue queue;
  sleepers sleeping;
  std::atomic<int> popped{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  threads.reserve(poppers);
  for (int i = 0; i < poppers; ++i) {
    threads.emplace_back([&] {
      job* used = nullptr;
      for (;;) {
        job* const next = used == nullptr ? queue.pop_first() : queue.pop_next(used);
        used = next;
        if (next != nullptr) {
          ++popped;
        } else if (is_over) {
          return;
        } else {
          sleeping.sleep_unless([&] { return !queue.looks_empty() || is_over; });
        }
      }
    });
  }
  std::vector<std::thread> pushing;
  pushing.reserve(pushers);
  for (int i = 0; i < pushers; ++i) {
    pushing.emplace_back([&] {
      for (int k = 0; k < each; ++k) {
        push_one(queue);
        sleeping.wake();
      }
    });
  }
  for (std::thread& thread : pushing) {
    thread.join();
  }
  while (popped != pushers * each) {
    std::this_thread::yield();
  }
  is_over = true;
  sleeping.wake_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(queue.is_idle());
}

}  // namespace
}  // namespace numapool::detail
