// SPDX-License-Identifier: Apache-2.0

// Goal: on any shape of machine and under any restriction, pages are where they were asked for, or
// where the nearest possible is, and the handle says so; masks are never widened.
// Method: the same questions in guests of many shapes, begun under cpusets, with CPUs offline, or
// narrowed here.

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

#include "lab/scenarios/every_node.hpp"

namespace numapool::lab {
namespace {

cpu_set_t own_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  return mask;
}

void expect_mask_unchanged(const cpu_set_t& before) {
  const cpu_set_t now = own_mask();
  EXPECT_TRUE(CPU_EQUAL(&before, &now)) << "this thread's mask was changed";
}

TEST(Placement, IsRightOnEveryNode) {
  const guest here = guest::read();
  const cpu_set_t before = own_mask();
  worker_pool pool;
  serve_every_node(pool, here);
  expect_mask_unchanged(before);
}

// The process's own mask, as taskset(1) sets it: the highest CPU that it may use.
TEST(Placement, IsRightWhereTheProcessHasNarrowedItself) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<unsigned>(*guest::read().allowed_cpus.rbegin()), &mask);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(mask), &mask), 0);
  const guest here = guest::read();
  ASSERT_EQ(here.usable_nodes().size(), 1U);
  worker_pool pool;
  serve_every_node(pool, here);
  expect_mask_unchanged(mask);
}

// The kernel moves a thread whose only CPU goes offline, and widens its mask to all: the pool's
// pages must still be right by policy, and strict must not trust first touch.
TEST(Placement, IsRightAfterACpuWentOfflineUnderItsWorker) {
  const guest before = guest::read();
  const int node = *before.memory_nodes().rbegin();
  const int cpu = *before.nodes.at(node).cpus.rbegin();
  worker_pool pool;
  expect_all_on(pool.allocate(ask(node, 8 * mib)), node);
  const std::string online = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/online";
  write_file(online, "0");
  for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict}) {
    request what = ask(node, 8 * mib);
    what.bind = bind;
    expect_all_on(pool.allocate(what), node);
  }
  worker_pool fresh;
  expect_all_on(fresh.allocate(ask(node, 8 * mib)), node);
  write_file(online, "1");
}

// ---- a node that comes

bool knows_memory_of(const topology& machine, int node) {
  const node_info* const found = machine.find(node_id(static_cast<unsigned>(node)));
  return found != nullptr && found->memory_bytes != 0;
}

// Memory is plugged into a node that had none and was not even online. A process keeps the topology
// that it saw first; what it reads anew has the node, and a pool that begins then serves it.
TEST(Hotplug, ANodeThatComesIsReadAnewAndServed) {
  constexpr int node = 1;
  ASSERT_FALSE(knows_memory_of(topology::read(), node));
  ASSERT_EQ(std::system("hotplug add 1 256"), 0);
  EXPECT_TRUE(knows_memory_of(topology::read(), node));
  const guest here = guest::read();
  EXPECT_TRUE(here.memory_nodes().contains(node));
  {
    worker_pool pool;
    serve_every_node(pool, here);
  }
  ASSERT_EQ(std::system("hotplug remove 1 256"), 0);
  EXPECT_FALSE(knows_memory_of(topology::read(), node));
}

// ---- a node that is nearly full

// A child that holds all but `left_bytes` of what a node has free.
class hog {
 public:
  hog(int node, std::size_t left_bytes) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    child_ = ::fork();
    if (child_ == 0) {
      hold(node, left_bytes, ends[1]);
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1) << "the node could not be filled";
    ::close(ends[0]);
  }
  hog(const hog&) = delete;
  hog& operator=(const hog&) = delete;
  ~hog() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  [[noreturn]] static void hold(int node, std::size_t left_bytes, int ready) {
    constexpr unsigned long prefer = 1;  // MPOL_PREFERRED
    constexpr std::size_t step = 4 * mib;
    unsigned long mask = 1UL << static_cast<unsigned>(node);
    ::syscall(SYS_set_mempolicy, prefer, &mask, sizeof(mask) * 8 + 1);
    while (guest::read().nodes.at(node).free_bytes > left_bytes + step) {
      void* piece = ::mmap(nullptr, step, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      if (piece == MAP_FAILED) {
        ::_exit(1);
      }
    }
    static_cast<void>(::write(ready, "x", 1));
    for (;;) {
      ::pause();
    }
  }

  pid_t child_ = -1;
};

TEST(FullNode, IsRefusedByStrictBeforeAPageIsTouchedAndSpilledByPrefer) {
  const int node = *guest::read().memory_nodes().rbegin();
  const hog holder(node, 40 * mib);
  worker_pool_options options;
  options.reserve_bytes = 8 * mib;
  worker_pool pool(options);
  request what = ask(node, 64 * mib);
  what.pages = page_policy::base;
  what.bind = bind_policy::strict;
  boost::system::error_code error;
  EXPECT_FALSE(pool.allocate(what, error));
  EXPECT_EQ(error, errc::out_of_node_memory);  // and we are alive: the kernel would have killed us
  what.bind = bind_policy::prefer;
  const buffer spilled = pool.allocate(what);
  const test::page_census seen = expect_handle_is_right(spilled);
  EXPECT_GT(seen.by_node.size(), 1U) << "nothing was spilled";
  EXPECT_EQ(seen.not_resident, 0U);
  EXPECT_LT(spilled.placement().share_on_node, 1.0);
  EXPECT_GT(spilled.placement().share_on_node, 0.0);
}

}  // namespace
}  // namespace numapool::lab
