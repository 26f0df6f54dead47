// SPDX-License-Identifier: Apache-2.0

// Goal: a pinned thread runs on its node, within what the process was given, and on an error its mask is untouched.
// Method: this kernel; each test on a thread of its own.

#include <thread>

#include <gtest/gtest.h>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "platform/platform.hpp"

namespace numapool {
namespace {

platform::threads& threads() {
  return platform::this_machine().threads;
}

cpu_set own_mask() {
  cpu_set mask;
  EXPECT_FALSE(threads().get_affinity(mask));
  return mask;
}

template <typename Function>
void on_own_thread(Function function) {
  std::thread(function).join();
}

node_id some_usable_node() {
  return topology::system()->nearest_usable_node(topology::system()->nodes().front().id);
}

TEST(CurrentNode, IsANodeOfThisMachine) {
  const node_id node = current_node();
  if (node.is_unknown()) {
    GTEST_SKIP() << "the kernel does not say on which node a thread is";
  }
  EXPECT_NE(topology::system()->find(node), nullptr);
}

TEST(PinThread, RunsOnEachUsableNode) {
  const auto machine = topology::system();
  for (const node_info& node : machine->nodes()) {
    if (node.usable_cpus.empty()) {
      continue;
    }
    on_own_thread([&node] {
      const cpu_set obtained = pin_thread_to_node(node.id);
      EXPECT_EQ(obtained, node.usable_cpus);
      EXPECT_EQ(own_mask(), obtained);  // the mask is read back from the kernel
      if (const node_id now = current_node(); !now.is_unknown()) {
        EXPECT_EQ(now, node.id);
      }
    });
  }
}

TEST(PinThread, MovesAMaskThatIsNarrowed) {
  const node_id node = some_usable_node();
  on_own_thread([node] {
    const cpu_set all = topology::system()->find(node)->usable_cpus;
    ASSERT_FALSE(threads().set_affinity(cpu_set{all.front()}));
    EXPECT_EQ(pin_thread_to_node(node), all);
    EXPECT_TRUE(all.is_subset_of(topology::system()->allowed_cpus()));
  });
}

TEST(PinThread, LeavesOtherThreadsAlone) {
  const cpu_set before = own_mask();
  on_own_thread([] { static_cast<void>(pin_thread_to_node(some_usable_node())); });
  EXPECT_EQ(own_mask(), before);
}

TEST(PinThread, UnknownNodesAreErrorsAndChangeNothing) {
  on_own_thread([] {
    const cpu_set before = own_mask();
    for (node_id node : {node_id::unknown, node_id(node_set::id_max)}) {
      boost::system::error_code error;
      EXPECT_TRUE(pin_thread_to_node(node, error).empty());
      EXPECT_EQ(error, errc::unknown_node);
      EXPECT_THROW(pin_thread_to_node(node), numapool::error);
    }
    EXPECT_EQ(own_mask(), before);
  });
}

}  // namespace
}  // namespace numapool
