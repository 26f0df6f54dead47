// SPDX-License-Identifier: Apache-2.0

// Goal: the gate is exactly the original's, and its successor wins. Method: one variable at a time, and both.

#include <cstdlib>

#include <gtest/gtest.h>

#include <numapool/environment.hpp>

namespace numapool {
namespace {

class Environment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    ::unsetenv(environment::enable_numa);
    ::unsetenv(environment::disable_numa);
  }
  static void enable(const char* value) { ::setenv(environment::enable_numa, value, 1); }
  static void disable(const char* value) { ::setenv(environment::disable_numa, value, 1); }
};

TEST_F(Environment, VariablesAreTheOriginals) {
  EXPECT_STREQ(environment::enable_numa, "DYN_KVBM_ENABLE_NUMA");
  EXPECT_STREQ(environment::disable_numa, "DYN_MEMORY_DISABLE_NUMA");
}

TEST_F(Environment, GateIsOffByDefault) {
  EXPECT_FALSE(is_numa_enabled());
  EXPECT_FALSE(is_numa_disabled());
}

TEST_F(Environment, GateOpensForOneAndTrueOnly) {
  for (const char* value : {"1", "true", "TRUE", "True", "tRuE"}) {
    enable(value);
    EXPECT_TRUE(is_numa_enabled()) << value;
  }
  for (const char* value : {"", "0", "yes", "on", " 1", "1 ", "11", "true ", "truer", "tru", "2"}) {
    enable(value);
    EXPECT_FALSE(is_numa_enabled()) << '"' << value << '"';
  }
}

TEST_F(Environment, SuccessorWins) {
  enable("1");
  for (const char* value : {"1", "true", "on", "yes", "YES", "On", "TRUE"}) {
    disable(value);
    EXPECT_FALSE(is_numa_enabled()) << value;
    EXPECT_TRUE(is_numa_disabled()) << value;
  }
  for (const char* value : {"", "0", "false", "off", "no", "maybe", " 1"}) {
    disable(value);
    EXPECT_TRUE(is_numa_enabled()) << value;
    EXPECT_FALSE(is_numa_disabled()) << value;
  }
}

TEST_F(Environment, SuccessorDoesNotOpenTheGate) {
  disable("0");
  EXPECT_FALSE(is_numa_enabled());
}

TEST_F(Environment, IsReadAtEachCall) {
  enable("1");
  EXPECT_TRUE(is_numa_enabled());
  enable("0");
  EXPECT_FALSE(is_numa_enabled());
}

TEST_F(Environment, BooleansHaveEightWords) {
  for (const char* text : {"1", "true", "on", "yes", "ON", "Yes"}) {
    EXPECT_EQ(parse_bool(text), true) << text;
  }
  for (const char* text : {"0", "false", "off", "no", "OFF", "No"}) {
    EXPECT_EQ(parse_bool(text), false) << text;
  }
  for (const char* text : {"", "y", "enabled", "on ", "2"}) {
    EXPECT_EQ(parse_bool(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace numapool
