// SPDX-License-Identifier: Apache-2.0

// Goal: ids are names, not numbers to count with; sets of them hold any id at every width. Method: the ids on both
// sides of each word, and random sets against std::set.

#include <cstdint>
#include <iostream>
#include <random>
#include <set>
#include <sstream>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numapool/node.hpp>

namespace numapool {
namespace {

const std::vector<std::uint32_t> edges{0, 31, 32, 63, 64, 255, 1023, 1024, 4095};

std::set<std::uint32_t> members_of(const cpu_set& set) {
  std::set<std::uint32_t> members;
  for (cpu_id cpu : set) {
    members.insert(cpu.value());
  }
  return members;
}

cpu_set set_of(const std::set<std::uint32_t>& members) {
  cpu_set set;
  for (std::uint32_t member : members) {
    set.insert(cpu_id(member));
  }
  return set;
}

TEST(NodeId, DefaultsToUnknownWhichIsNoNode) {
  EXPECT_TRUE(node_id().is_unknown());
  EXPECT_EQ(node_id(), node_id::unknown);
  EXPECT_EQ(node_id::unknown.value(), 4294967295U);
  EXPECT_NE(node_id::unknown, node_id(0));
  EXPECT_LT(node_id(0), node_id(1));
}

TEST(NodeId, DoesNotMixWithCpus) {
  static_assert(!std::is_convertible_v<std::uint32_t, node_id>);
  static_assert(!std::is_convertible_v<cpu_id, node_id>);
  static_assert(!std::is_constructible_v<node_id, cpu_id>);
  static_assert(std::is_trivially_copyable_v<node_id>);
}

TEST(NodeId, PrintsItsName) {
  std::ostringstream stream;
  stream << std::hex << node_id(10) << ' ' << node_id::unknown << ' ' << cpu_id(31);
  EXPECT_EQ(stream.str(), "NumaNode(10) UNKNOWN 31");
  EXPECT_EQ(to_string(node_id(0)), "NumaNode(0)");
}

TEST(NodeId, GoesThroughJsonAsABareNumber) {
  const nlohmann::json json = std::vector{node_id(3), node_id::unknown};
  EXPECT_EQ(json.dump(), "[3,4294967295]");
  EXPECT_EQ(json.get<std::vector<node_id>>(), (std::vector{node_id(3), node_id::unknown}));
}

TEST(NodeId, RefusesOtherJsonAndStaysAsItWas) {
  for (const char* text : {"-1", "4294967296", "1.5", "\"1\"", "null", "[1]", "true"}) {
    node_id node(7);
    EXPECT_THROW(nlohmann::json::parse(text).get_to(node), std::out_of_range) << text;
    EXPECT_EQ(node, node_id(7)) << text;
  }
}

TEST(NodeId, Hashes) {
  const std::unordered_set<node_id> nodes{node_id(0), node_id(1), node_id(0)};
  EXPECT_EQ(nodes.size(), 2U);
  EXPECT_TRUE(std::unordered_set<cpu_id>{cpu_id(4)}.contains(cpu_id(4)));
}

class AtEdge : public testing::TestWithParam<std::uint32_t> {};

TEST_P(AtEdge, OneMemberIsTheOnlyOne) {
  const std::uint32_t id = GetParam();
  const node_set set{node_id(id)};
  EXPECT_EQ(set.size(), 1U);
  EXPECT_EQ(set.front(), node_id(id));
  EXPECT_EQ(set.back(), node_id(id));
  EXPECT_EQ(*set.begin(), node_id(id));
  EXPECT_EQ(++set.begin(), set.end());
  EXPECT_TRUE(set.contains(node_id(id)));
  EXPECT_FALSE(set.contains(node_id(id + 1)));
  EXPECT_TRUE(id == 0 || !set.contains(node_id(id - 1)));
  EXPECT_EQ(set.to_list(), std::to_string(id));
}

TEST_P(AtEdge, WordsHoldTheBitAndEndThere) {
  const std::uint32_t id = GetParam();
  const node_set set{node_id(id)};
  ASSERT_EQ(set.words().size(), id / 64 + 1);
  EXPECT_EQ(set.words().back(), std::uint64_t{1} << (id % 64));
}

TEST_P(AtEdge, ErasingTheHighestShrinks) {
  const std::uint32_t id = GetParam();
  node_set set{node_id(id)};
  set.erase(node_id(id + 1));  // not a member: nothing happens
  EXPECT_EQ(set.size(), 1U);
  set.erase(node_id(id));
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set, node_set());
  EXPECT_TRUE(set.words().empty());
}

TEST_P(AtEdge, RangesEndThere) {
  const std::uint32_t id = GetParam();
  const cpu_set set = cpu_set::range(cpu_id(0), cpu_id(id));
  EXPECT_EQ(set.size(), id + 1U);
  EXPECT_EQ(set.back(), cpu_id(id));
  const cpu_set upper = cpu_set::range(cpu_id(id), cpu_id(id + 70));
  EXPECT_EQ(upper.size(), 71U);
  EXPECT_EQ(upper.front(), cpu_id(id));
  EXPECT_EQ(set & upper, cpu_set{cpu_id(id)});
  EXPECT_EQ((set | upper).size(), id + 71U);
}

INSTANTIATE_TEST_SUITE_P(Ids, AtEdge, testing::ValuesIn(edges));

TEST(IdSet, HoldsAllEdgesTogether) {
  cpu_set set;
  for (std::uint32_t id : edges) {
    set.insert(cpu_id(id));
  }
  EXPECT_EQ(set.size(), edges.size());
  EXPECT_EQ(set.to_list(), "0,31-32,63-64,255,1023-1024,4095");
  EXPECT_EQ(members_of(set), std::set<std::uint32_t>(edges.begin(), edges.end()));
}

TEST(IdSet, BackwardRangeIsEmpty) {
  EXPECT_TRUE(cpu_set::range(cpu_id(3), cpu_id(2)).empty());
  EXPECT_EQ(cpu_set::range(cpu_id(3), cpu_id(3)), cpu_set{cpu_id(3)});
}

TEST(IdSet, EmptySetAnswers) {
  const node_set none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_EQ(none.to_list(), "");
  EXPECT_TRUE(none.is_subset_of(none));
  EXPECT_FALSE(none.contains(node_id::unknown));
}

TEST(IdSet, HoldsItsHighestId) {
  const cpu_set set{cpu_id(cpu_set::id_max)};
  EXPECT_EQ(set.back(), cpu_id(cpu_set::id_max));
  EXPECT_EQ(set.to_list(), "1048575");
}

TEST(IdSetDeathTest, BugsEndTheProcess) {
  EXPECT_DEATH(static_cast<void>(cpu_set().front()), "bug");
  EXPECT_DEATH(static_cast<void>(cpu_set().back()), "bug");
  EXPECT_DEATH(cpu_set().insert(cpu_id(cpu_set::id_max + 1)), "bug");
  EXPECT_DEATH(node_set().insert(node_id::unknown), "bug");
}

TEST(IdSet, OperationsAgreeWithStdSet) {
  const auto seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  std::minstd_rand engine(seed);
  const auto random = [&engine] {
    return static_cast<std::uint32_t>(engine());
  };
  for (int round = 0; round < 300; ++round) {
    std::set<std::uint32_t> a;
    std::set<std::uint32_t> b;
    const std::uint32_t width = 1 + random() % 300;
    for (std::uint32_t count = random() % 60; count > 0; --count) {
      (random() % 2 == 0 ? a : b).insert(random() % width);
    }
    std::set<std::uint32_t> both;
    std::set<std::uint32_t> only_a;
    for (std::uint32_t id : a) {
      (b.contains(id) ? both : only_a).insert(id);
    }
    std::set<std::uint32_t> any = a;
    any.insert(b.begin(), b.end());
    ASSERT_EQ(members_of(set_of(a) & set_of(b)), both);
    ASSERT_EQ(members_of(set_of(a) - set_of(b)), only_a);
    ASSERT_EQ(members_of(set_of(a) | set_of(b)), any);
    ASSERT_EQ(set_of(a) - set_of(b), set_of(only_a));  // equal also in width
    ASSERT_EQ(set_of(a).intersects(set_of(b)), !both.empty());
    ASSERT_EQ(set_of(a).is_subset_of(set_of(b)), only_a.empty());
    ASSERT_EQ(set_of(a).size(), a.size());
  }
}

}  // namespace
}  // namespace numapool
