// SPDX-License-Identifier: Apache-2.0
// Goal: a misspelling finds the word that was meant, and a word of its own finds none.
#include <gtest/gtest.h>

#include "cli/near_match.hpp"

namespace numapool::cli {
namespace {

const std::vector<std::string> known{"--node", "--nodes-too", "--size", "--count", "topology"};

TEST(NearMatch, IsTheWordThatWasMeant) {
  EXPECT_EQ(near_match("--noed", known), "--node");    // swapped
  EXPECT_EQ(near_match("--nde", known), "--node");     // left out
  EXPECT_EQ(near_match("--sizes", known), "--size");   // put in
  EXPECT_EQ(near_match("--coumd", known), "--count");  // two exchanged
  EXPECT_EQ(near_match("topolgy", known), "topology");
  EXPECT_EQ(near_match("--size", known), "--size");
}

TEST(NearMatch, IsNothingForAWordOfItsOwn) {
  for (const char* word : {"", "-", "x", "--frobnicate", "--policy", "bind", "--si"}) {
    EXPECT_EQ(near_match(word, known), "") << word;
  }
  EXPECT_EQ(near_match("--node", {}), "");
}

TEST(NearMatch, OfTwoAsNearIsTheFirst) {
  EXPECT_EQ(near_match("bat", {"cat", "bar"}), "cat");
}

}  // namespace
}  // namespace numapool::cli
