// SPDX-License-Identifier: Apache-2.0

// Goal: the kernel's lists and masks are read exactly, and what is wrong is named. Method: tables
// of texts; random sets written and read back.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/error.hpp>
#include <numapool/node.hpp>

namespace numapool {
namespace {

std::string message_for(const std::string& list) {
  try {
    const cpu_set set = cpu_set::parse_list(list);
    return "no error: " + set.to_list();
  } catch (const error& wrong) {
    EXPECT_EQ(wrong.code(), errc::malformed_list);
    EXPECT_EQ(wrong.why().operation, operation::parse);
    return wrong.what();
  }
}

TEST(CpuList, ReadsRangesAndSingles) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"0-15,32-47", "0-15,32-47"}, {"0", "0"},         {"3-3", "3"},
      {"5,1,3", "1,3,5"},           {"0-2,1-4", "0-4"}, {"0,1,2", "0-2"},
      {"63-64", "63-64"},           {"007", "7"},       {"0-1048575", "0-1048575"},
  };
  for (const auto& [text, shortest] : cases) {
    EXPECT_EQ(cpu_set::parse_list(text).to_list(), shortest) << text;
    EXPECT_EQ(node_set::parse_list(text).to_list(), shortest) << text;
  }
}

TEST(CpuList, EmptyTextIsTheEmptySet) {
  for (const char* text : {"", "\n", " ", "\t\n", ",", " , ,\n"}) {
    EXPECT_TRUE(cpu_set::parse_list(text).empty()) << '"' << text << '"';
  }
}

TEST(CpuList, BlanksAndAFinalNewlineAreLegal) {
  EXPECT_EQ(cpu_set::parse_list("0-3\n").to_list(), "0-3");
  EXPECT_EQ(cpu_set::parse_list(" 0 - 3 , 5 ,\t7 \n").to_list(), "0-3,5,7");
  EXPECT_EQ(cpu_set::parse_list(std::string("0-3\0\0", 5)).to_list(), "0-3");
}

// The kernel's own reader, bitmap_parselist, skips them.
TEST(CpuList, BlankPartsAreSkipped) {
  EXPECT_EQ(cpu_set::parse_list("0,,2").to_list(), "0,2");
  EXPECT_EQ(cpu_set::parse_list("0-1,").to_list(), "0-1");
  EXPECT_EQ(cpu_set::parse_list(", 4").to_list(), "4");
}

TEST(CpuList, RejectsAndNamesThePart) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"0,3-1", "3-1"},
      {"0-", "0-"},
      {"5,-3", "-3"},
      {"-", "-"},
      {"a", "a"},
      {"0,1b,2", "1b"},
      {"0-1-2", "0-1-2"},
      {"0--2", "0--2"},
      {"1 2", "1 2"},
      {"+1", "+1"},
      {"0x3", "0x3"},
      {"1.5", "1.5"},
      {"0-10:1/2", "0-10:1/2"},
      {"4294967296", "4294967296"},
      {"99999999999999999999", "99999999999999999999"},
      {"0-99999999999999999999", "0-99999999999999999999"},
      {"1048576", "1048576"},
      {"0,2-1048576", "2-1048576"},
      {"4294967295", "4294967295"},
  };
  for (const auto& [text, part] : cases) {
    const std::string message = message_for(text);
    EXPECT_NE(message.find("'" + part + "'"), std::string::npos) << text << ": " << message;
  }
}

TEST(CpuList, MessagesStayShortAndPrintable) {
  const std::string message = message_for("\x01\xff" + std::string(100'000, 'x'));
  EXPECT_LT(message.size(), 200U);
  EXPECT_NE(message.find("'??xxx"), std::string::npos) << message;
}

TEST(CpuList, SecondFormReturnsTheError) {
  boost::system::error_code error = make_error_code(errc::timed_out);
  EXPECT_EQ(cpu_set::parse_list("0-1", error).to_list(), "0-1");
  EXPECT_FALSE(error);
  EXPECT_TRUE(cpu_set::parse_list("0,a", error).empty());
  EXPECT_EQ(error, errc::malformed_list);
  EXPECT_TRUE(node_set::parse_mask("g", error).empty());
  EXPECT_EQ(error, errc::malformed_list);
  EXPECT_EQ(node_set::parse_mask("3", error).to_list(), "0-1");
  EXPECT_FALSE(error);
}

TEST(CpuMask, ReadsWordsOfAnyNumber) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", ""},
      {"\n", ""},
      {"0", ""},
      {"ff", "0-7"},
      {"00000000,0000ffff\n", "0-15"},
      {"ffffffff,00000000", "32-63"},
      {"1,00000000,00000000", "64"},
      {"0000,00000011,11111111", "0,4,8,12,16,20,24,28,32,36"},
      {"FF", "0-7"},
      {"80000000,00000001", "0,63"},
      {"1,1", "0,32"},
  };
  for (const auto& [text, list] : cases) {
    EXPECT_EQ(cpu_set::parse_mask(text).to_list(), list) << text;
  }
}

TEST(CpuMask, ReadsEveryEdge) {
  for (std::uint32_t id : {0U, 31U, 32U, 63U, 64U, 255U, 1023U, 1024U, 4095U, cpu_set::id_max}) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", 1U << (id % 32));
    std::string mask = word;
    for (std::uint32_t word_index = 0; word_index < id / 32; ++word_index) {
      mask += ",00000000";
    }
    EXPECT_EQ(cpu_set::parse_mask(mask).to_list(), std::to_string(id));
    EXPECT_EQ(cpu_set::parse_mask("0,00000000," + mask).to_list(), std::to_string(id));
  }
}

TEST(CpuMask, Rejects) {
  std::string too_high = "1";
  for (std::uint32_t word = 0; word < (cpu_set::id_max + 1) / 32; ++word) {
    too_high += ",0";
  }
  for (const std::string& text :
       {std::string("g"), std::string("0x1"), std::string("ff,,00"), std::string("ff,"),
        std::string("123456789"), std::string("-1"), std::string("1 1"), too_high}) {
    boost::system::error_code error;
    EXPECT_TRUE(cpu_set::parse_mask(text, error).empty());
    EXPECT_EQ(error, errc::malformed_list) << text.substr(0, 20);
  }
}

TEST(CpuList, WrittenAndReadBackIsTheSame) {
  const auto seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  std::minstd_rand engine(seed);
  const auto random = [&engine] {
    return static_cast<std::uint32_t>(engine());
  };
  for (int round = 0; round < 500; ++round) {
    cpu_set set;
    const std::uint32_t width = 1U << (random() % 13);
    for (std::uint32_t runs = random() % 12; runs > 0; --runs) {
      const std::uint32_t first = random() % width;
      set |= cpu_set::range(cpu_id(first), cpu_id(first + random() % 40));
    }
    ASSERT_EQ(cpu_set::parse_list(set.to_list()), set) << set.to_list();
    std::string mask;
    for (std::uint64_t word : set.words()) {
      char text[20];
      std::snprintf(text, sizeof text, "%08x,%08x", static_cast<unsigned>(word >> 32U),
                    static_cast<unsigned>(word & 0xffffffffU));
      mask.insert(0, mask.empty() ? text : std::string(text) + ",");
    }
    ASSERT_EQ(cpu_set::parse_mask(mask), set) << mask;
  }
}

// Whatever bytes come, the reader answers with a set or an error.
TEST(CpuList, SurvivesNoise) {
  const auto seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  std::minstd_rand engine(seed);
  const auto random = [&engine] {
    return static_cast<std::uint32_t>(engine());
  };
  const std::string letters = "0123456789,,,--- \nabfx";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::uint32_t length = random() % 16; length > 0; --length) {
      text += letters[random() % letters.size()];
    }
    boost::system::error_code error;
    const cpu_set set = cpu_set::parse_list(text, error);
    ASSERT_TRUE(!error || set.empty());
    static_cast<void>(cpu_set::parse_mask(text, error));
  }
}

}  // namespace
}  // namespace numapool
