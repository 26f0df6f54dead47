// SPDX-License-Identifier: Apache-2.0
//
// Goal: whoever lets go of a large buffer does not wait for its memory to be freed, nothing is lost
// on the way, and a request that needs what is on its way waits for it instead of being refused.
// Method: this machine with a memory whose unmap() waits for the test, and simulated machines whose
// buffers queue up behind it.

#include "memory/release_queue.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "platform/linux_memory.hpp"
#include "support/allocation_fixture.hpp"

namespace numapool::memory {
namespace {

using namespace std::chrono_literals;

// While it is closed, unmap() waits.
class gated_memory final : public platform::linux_memory {
 public:
  platform::error_code unmap(const platform::mapping& made) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
    return linux_memory::unmap(made);
  }
  void set_open(bool is_open) {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = is_open;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
};

// The release queue keeps the threads it was first given, so they are this machine's throughout.
class release_queue_test : public testing::Test {
 protected:
  release_queue_test() : held_up_{real_.files, real_.threads, gate_, real_.registrar} {
    held_up_.releases_in_background = true;
  }
  ~release_queue_test() override {
    gate_.set_open(true);
    wait_for_releases();
    EXPECT_EQ(release_queue::of_process().pending_bytes(), 0U);
  }

  static std::unique_ptr<buffer_state> make(platform::platform& machine, std::size_t size_bytes) {
    auto made = std::make_unique<buffer_state>(machine);
    platform::mapping mapped;
    EXPECT_FALSE(machine.memory.map({size_bytes, 4096, 0}, mapped));
    made->adopt(mapped);
    return made;
  }

  platform::platform& real_ = platform::this_machine();
  gated_memory gate_;
  platform::platform held_up_;
};

TEST_F(release_queue_test, LetsTheCallerGoBeforeTheMemoryIsBack) {
  const auto before = current_totals();
  gate_.set_open(false);
  release(make(held_up_, 4 * mib));
  EXPECT_EQ(current_totals().bytes_mapped, before.bytes_mapped + 4 * mib);
  EXPECT_EQ(release_queue::of_process().pending_bytes(), 4 * mib);
  gate_.set_open(true);
  wait_for_releases();
  EXPECT_EQ(current_totals().bytes_mapped, before.bytes_mapped);
  EXPECT_EQ(current_totals().buffers_live, before.buffers_live);
}

TEST_F(release_queue_test, LeavesSmallOnesAndMachinesWithoutItToTheCaller) {
  const auto before = current_totals();
  release(make(held_up_, mib - 4096));
  EXPECT_EQ(current_totals().bytes_mapped, before.bytes_mapped);
  platform::platform plain{real_.files, real_.threads, gate_, real_.registrar};
  release(make(plain, 4 * mib));
  EXPECT_EQ(current_totals().bytes_mapped, before.bytes_mapped);
  release(nullptr);
}

TEST_F(release_queue_test, GivesBackEverythingOfManyThreads) {
  const auto before = current_totals();
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        release(make(held_up_, mib));
      }
    });
  }
  for (std::thread& user : users) {
    user.join();
  }
  wait_for_releases();
  EXPECT_EQ(current_totals().bytes_mapped, before.bytes_mapped);
  EXPECT_EQ(current_totals().release_failures, before.release_failures);
}

TEST_F(release_queue_test, WaitsForNothingThatCameAfter) {
  release(make(held_up_, mib));
  wait_for_releases();
  EXPECT_FALSE(release_queue::of_process().wait());  // nothing is left to wait for
}

// A child has neither the thread nor the memory; it must not wait for either.
TEST_F(release_queue_test, IsNotThereInAForkedChild) {
  release(make(held_up_, mib));
  wait_for_releases();
  gate_.set_open(false);
  auto parents = make(held_up_, 4 * mib);
  release(make(held_up_, 4 * mib));
  const pid_t child = ::fork();
  if (child == 0) {
    release(std::move(parents));
    const bool has_waited = release_queue::of_process().wait();
    ::_exit(has_waited ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  release(std::move(parents));
}

// A request for memory, locked bytes or huge pages that are on their way back is not refused.
class pending_memory_test : public release_queue_test {
 protected:
  // What `what` becomes while a buffer of that kind is queued behind the gate, which opens later.
  outcome allocate_behind(fake_machine& machine, const request& what) {
    platform::platform& simulated = machine.platform();
    platform::platform mixed{simulated.files, real_.threads, simulated.memory, simulated.registrar};
    mixed.releases_in_background = true;
    const topology& nodes = *machine.nodes();
    memory::admission admission(mixed.files, nodes);
    const auto make_one = [&](outcome& done) {
      static_cast<void>(machine.threads().set_affinity(nodes.find(what.node)->usable_cpus));
      memory::allocation steps({mixed, nodes, admission, std::nullopt}, what, route::node_workers,
                               {what.node, 1, true});
      done.why = steps.prepare();
      for (std::size_t piece = 0; !done.why && piece < steps.piece_count(); ++piece) {
        done.why = steps.populate(piece);
      }
      done.why = done.why ? done.why : steps.finish();
      if (!done.why) {
        done.result = steps.take();
      }
    };
    outcome first;
    make_one(first);
    EXPECT_FALSE(first.why) << first.why.message;
    gate_.set_open(false);
    release(make(held_up_, mib));
    first.result.reset();
    outcome second;
    auto asking = std::async(std::launch::async, [&] { make_one(second); });
    EXPECT_EQ(asking.wait_for(50ms), std::future_status::timeout);  // it waits
    gate_.set_open(true);
    asking.wait();
    second.result.reset();
    wait_for_releases();
    expect_nothing_left(machine);
    return second;
  }
};

TEST_F(pending_memory_test, OfANodeIsWaitedFor) {
  fake_machine machine(machine_plan::two_nodes());
  machine.memory().set_free(node_0, default_reserve_bytes(64 * gib) + 96 * mib);
  request what = ask(node_0, 64 * mib);
  what.bind = bind_policy::strict;
  EXPECT_FALSE(allocate_behind(machine, what).why);
}

TEST_F(pending_memory_test, OfAHugePagePoolIsWaitedFor) {
  machine_plan plan = machine_plan::two_nodes();
  plan.nodes[0].huge_pages = 3;
  fake_machine machine(plan);
  request what = ask(node_0, 4 * mib);
  what.pages = page_policy::huge_2mib;
  what.bind = bind_policy::strict;
  EXPECT_FALSE(allocate_behind(machine, what).why);
}

TEST_F(pending_memory_test, ThatIsLockedIsWaitedFor) {
  fake_machine machine(machine_plan::two_nodes());
  fake_memory::abilities can;
  can.lock_limit_bytes = 6 * mib;
  machine.memory().set_abilities(can);
  request what = ask(node_0, 4 * mib);
  what.pin = pin_policy::mlock;
  EXPECT_FALSE(allocate_behind(machine, what).why);
}

}  // namespace
}  // namespace numapool::memory
