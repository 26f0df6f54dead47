// SPDX-License-Identifier: Apache-2.0

// Goal: every error has a name and a sentence of its own, and compares with the standard's where one exists.

#include <set>
#include <string>

#include <boost/system/errc.hpp>
#include <gtest/gtest.h>

#include <numapool/error.hpp>

namespace numapool {
namespace {

constexpr int last = static_cast<int>(errc::machine_not_recorded);

TEST(Error, EveryCodeHasItsOwnNameAndMessage) {
  std::set<std::string> names;
  std::set<std::string> messages;
  for (int value = 1; value <= last; ++value) {
    const auto code = static_cast<errc>(value);
    EXPECT_TRUE(names.emplace(name(code)).second) << value;
    EXPECT_TRUE(messages.insert(make_error_code(code).message()).second) << value;
    EXPECT_FALSE(name(code).empty());
    EXPECT_NE(name(code), "unknown") << value;
    EXPECT_EQ(make_error_code(code).category(), error_category());
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last));
}

TEST(Error, NamesAreTheEnumerators) {
  EXPECT_EQ(name(errc::zero_size), "zero_size");
  EXPECT_EQ(name(errc::out_of_node_memory), "out_of_node_memory");
  EXPECT_EQ(name(errc::called_from_worker), "called_from_worker");
  EXPECT_EQ(name(errc::machine_not_recorded), "machine_not_recorded");
}

TEST(Error, EveryOperationHasItsOwnName) {
  std::set<std::string_view> names;
  for (int step = 0; step <= static_cast<int>(operation::parse); ++step) {
    EXPECT_TRUE(names.insert(name(static_cast<operation>(step))).second);
  }
  EXPECT_EQ(name(operation::none), "none");
  EXPECT_EQ(name(operation::start_workers), "start_workers");
  EXPECT_EQ(name(operation::parse), "parse");
}

TEST(Error, OtherNumbersAreUnknown) {
  EXPECT_EQ(name(static_cast<errc>(0)), "unknown");
  EXPECT_EQ(name(static_cast<errc>(last + 1)), "unknown");
  EXPECT_EQ(name(static_cast<errc>(-1)), "unknown");
  EXPECT_NE(error_category().message(last + 1).find(std::to_string(last + 1)), std::string::npos);
  EXPECT_STREQ(error_category().name(), "numapool");
}

TEST(Error, ComparesWithTheStandardsWhereThatIsObvious) {
  namespace standard = boost::system::errc;
  for (errc code : {errc::out_of_memory, errc::out_of_node_memory, errc::cgroup_memory_limit, errc::no_huge_pages,
                    errc::memlock_limit}) {
    EXPECT_EQ(make_error_code(code), standard::not_enough_memory) << name(code);
  }
  EXPECT_EQ(make_error_code(errc::timed_out), standard::timed_out);
  EXPECT_EQ(make_error_code(errc::cancelled), standard::operation_canceled);
  EXPECT_EQ(make_error_code(errc::zero_size), standard::invalid_argument);
  EXPECT_EQ(make_error_code(errc::policy_denied), standard::operation_not_permitted);
  EXPECT_EQ(make_error_code(errc::called_from_worker), standard::resource_deadlock_would_occur);
  EXPECT_NE(make_error_code(errc::placement_not_reached), standard::invalid_argument);
}

TEST(Error, ConvertsByItsEnumeration) {
  const boost::system::error_code code = errc::unknown_node;
  EXPECT_TRUE(code.failed());
  EXPECT_EQ(code, errc::unknown_node);
  EXPECT_NE(code, errc::unknown_device);
}

TEST(Error, ThrownCarriesEverything) {
  try {
    throw error({errc::out_of_node_memory, operation::admit, node_id(3), 4096, {}, "node 3 is full"});
  } catch (const boost::system::system_error& caught) {
    EXPECT_EQ(caught.code(), errc::out_of_node_memory);
    EXPECT_STREQ(caught.what(), "node 3 is full");
    const auto& whole = dynamic_cast<const error&>(caught);
    EXPECT_EQ(whole.why().node, node_id(3));
    EXPECT_EQ(whole.why().size_bytes, 4096U);
    EXPECT_EQ(whole.why().operation, operation::admit);
  }
}

TEST(Failure, IsFalseWithoutACode) {
  EXPECT_FALSE(failure{});
  failure why;
  why.code = errc::zero_size;
  EXPECT_TRUE(why);
  EXPECT_TRUE(why.node.is_unknown());
}

}  // namespace
}  // namespace numapool
