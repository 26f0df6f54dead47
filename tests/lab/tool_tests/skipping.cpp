// SPDX-License-Identifier: Apache-2.0
// Tests that end in every way, for outcome_test.py, which runs them in a guest.

#include <cstdlib>

#include <gtest/gtest.h>

namespace {

TEST(Example, Passes) {}
TEST(Example, Fails) {
  FAIL() << "as it should";
}
TEST(Example, Skips) {
  GTEST_SKIP() << "as it should";
}
TEST(Example, Dies) {
  std::abort();
}

}  // namespace
