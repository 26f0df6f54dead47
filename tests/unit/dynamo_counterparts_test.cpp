// SPDX-License-Identifier: Apache-2.0

// Goal: whoever comes from dynamo's `numa` module finds each of its functions here, with the same laws. Method: one
// test for each of the original's own (mod.rs, topology.rs), called as it is named there; what differs says why.

#include <string>
#include <unordered_map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numapool/error.hpp>
#include <numapool/node.hpp>
#include <numapool/topology.hpp>

namespace numapool {
namespace {

const std::string machines = NUMAPOOL_TEST_MACHINES;

// mod.rs

TEST(DynamoNuma, NumaNodeEquality) {
  EXPECT_EQ(node_id(0), node_id(0));
  EXPECT_NE(node_id(0), node_id(1));
}

TEST(DynamoNuma, NumaNodeUnknown) {
  EXPECT_TRUE(node_id::unknown.is_unknown());
  EXPECT_EQ(node_id::unknown.value(), UINT32_MAX);
  EXPECT_FALSE(node_id(0).is_unknown());
}

TEST(DynamoNuma, NumaNodeDisplay) {
  EXPECT_EQ(to_string(node_id(0)), "NumaNode(0)");
  EXPECT_EQ(to_string(node_id(7)), "NumaNode(7)");
  EXPECT_EQ(to_string(node_id::unknown), "UNKNOWN");
}

TEST(DynamoNuma, NumaNodeSerialization) {
  const std::string text = nlohmann::json(node_id(1)).dump();
  EXPECT_EQ(text, "1");
  EXPECT_EQ(nlohmann::json::parse(text).get<node_id>(), node_id(1));
}

TEST(DynamoNuma, GetCurrentCpuNumaNode) {
  const node_id node = current_node();
  if (!node.is_unknown()) {
    EXPECT_LT(node.value(), node_set::id_max);  // ids are sparse: no small bound holds everywhere
  }
}

TEST(DynamoNuma, NumaNodeHash) {
  const std::unordered_map<node_id, std::string> names{{node_id(0), "zero"}, {node_id(1), "one"}};
  EXPECT_EQ(names.at(node_id(0)), "zero");
  EXPECT_EQ(names.at(node_id(1)), "one");
  EXPECT_FALSE(names.contains(node_id(2)));
}

TEST(DynamoNuma, NumaNodeCopyClone) {
  const node_id first(5);
  const node_id second = first;
  const node_id third(first);
  EXPECT_EQ(first, second);
  EXPECT_EQ(second, third);
}

TEST(DynamoNuma, PinThreadToNumaNodeErrors) {
  boost::system::error_code error;
  EXPECT_TRUE(pin_thread_to_node(node_id(node_set::id_max), error).empty());  // no such node
  EXPECT_EQ(error, errc::unknown_node);
  EXPECT_TRUE(pin_thread_to_node(node_id::unknown, error).empty());
  EXPECT_EQ(error, errc::unknown_node);
}

// topology.rs

TEST(DynamoTopology, ParseCpulistRange) {
  EXPECT_EQ(cpu_set::parse_list("0-3").to_list(), "0-3");
  EXPECT_EQ(cpu_set::parse_list("0-15,128-143").size(), 32U);
}

TEST(DynamoTopology, ParseCpulistSingles) {
  EXPECT_EQ(cpu_set::parse_list("0,2,4").to_list(), "0,2,4");
  EXPECT_EQ(cpu_set::parse_list("7").to_list(), "7");
}

TEST(DynamoTopology, ParseCpulistSortsAndDropsDoubles) {
  EXPECT_EQ(cpu_set::parse_list("8-9,0-1,1,8").to_list(), "0-1,8-9");
}

// An error in the era of the seed; an empty list since the original's #9046, as for a node of memory alone.
TEST(DynamoTopology, ParseCpulistEmpty) {
  EXPECT_TRUE(cpu_set::parse_list("").empty());
  EXPECT_TRUE(cpu_set::parse_list("\n").empty());
}

TEST(DynamoTopology, ParseCpulistInvalid) {
  for (const char* text : {"a", "0-b", "0-1-2", "x-3", "-"}) {
    boost::system::error_code error;
    EXPECT_TRUE(cpu_set::parse_list(text, error).empty());
    EXPECT_EQ(error, errc::malformed_list) << text;
  }
}

TEST(DynamoTopology, FromSysfs) {
  const topology here = topology::read();
  EXPECT_GE(here.node_count(), 1U);
  boost::system::error_code error;
  static_cast<void>(topology::read({.root = "/nonexistent"}, error));
  EXPECT_EQ(error, errc::topology_unavailable);
}

TEST(DynamoTopology, GetNumaTopologyIsKept) {
  EXPECT_EQ(topology::system(), topology::system());
}

TEST(DynamoTopology, CpusForNode) {
  const topology machine = topology::read({.root = machines + "/two-sockets-smt"});
  EXPECT_EQ(machine.cpus_of_node(node_id(1))->to_list(), "16-31,48-63");
  EXPECT_EQ(machine.cpus_of_node(node_id(2)), nullptr);
}

TEST(DynamoTopology, NodeForCpu) {
  const topology machine = topology::read({.root = machines + "/two-sockets-smt"});
  EXPECT_EQ(machine.node_of_cpu(cpu_id(40)), node_id(0));
  EXPECT_EQ(machine.node_of_cpu(cpu_id(4000)), node_id::unknown);
}

TEST(DynamoTopology, NumNodes) {
  EXPECT_EQ(topology::read({.root = machines + "/nps4"}).node_count(), 8U);
  EXPECT_EQ(topology::read({.root = machines + "/gh200"}).node_count(), 9U);
}

// The original counts nodes of memory alone, so that a GH200 is not single-node there; for CPU placement it is.
TEST(DynamoTopology, IsSingleNode) {
  EXPECT_FALSE(topology::read({.root = machines + "/two-sockets-smt"}).is_single_node());
  EXPECT_TRUE(topology::read({.root = machines + "/no-nodes"}).is_single_node());
  EXPECT_TRUE(topology::read({.root = machines + "/gh200"}).is_single_node());
}

// The original's #8623: one node without CPUs failed the whole machine.
TEST(DynamoTopology, MemoryOnlyNodeDoesNotFailTheMachine) {
  const topology machine = topology::read({.root = machines + "/memory-only"});
  EXPECT_TRUE(machine.cpus_of_node(node_id(2))->empty());
  EXPECT_FALSE(machine.cpus_of_node(node_id(1))->empty());
}

}  // namespace
}  // namespace numapool
