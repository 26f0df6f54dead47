// SPDX-License-Identifier: Apache-2.0
// Goal: sizes and times mean exactly what they say, or are refused with a sentence that names the
// text. Method: tables of texts; no machine is looked at.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"

namespace {

using namespace numapool::cli;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_size(text));
  } catch (const usage_error& wrong) {
    return wrong.what();
  }
  return "accepted";
}

TEST(CliSize, ReadsBinaryAndDecimalUnitsExactly) {
  const std::vector<std::pair<std::string, std::uint64_t>> table{
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"64KiB", 65536},
      {"64kib", 65536},
      {"64Ki", 65536},
      {"256MiB", 268435456},
      {"1GiB", 1073741824},
      {"1.5GiB", 1610612736},
      {"2GB", 2000000000},
      {"2gb", 2000000000},
      {"1kB", 1000},
      {"0.001kB", 1},
      {"1.50000000000000000000000KiB", 1536},
      {"0.5KiB", 512},
      {"3TiB", 3298534883328},
      {"15EiB", 17293822569102704640U},
      {"18446744073709551615", 18446744073709551615U},
  };
  for (const auto& [text, bytes] : table) {
    EXPECT_EQ(parse_size(text), bytes) << text;
  }
}

TEST(CliSize, RefusesUnitsThatCouldBeEither) {
  for (const char* text : {"64K", "64k", "1M", "1.5G", "2T"}) {
    EXPECT_THAT(refusal(text), HasSubstr("two ways")) << text;
  }
  EXPECT_THAT(refusal("64k"), HasSubstr("write 64KiB"));
  EXPECT_THAT(refusal("1.5G"), HasSubstr("1.5GB"));
}

TEST(CliSize, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text : {"", " ", "KiB", "-1", "+1", "1e9", "0x10", "1 GiB", "1.GiB", ".5GiB", "1,5GiB", "1GiBs",
                           "1iB", "1XiB", "1.2.3GiB", "1GiB ", "nan", "1KBi"}) {
    EXPECT_THAT(refusal(text), HasSubstr("'" + std::string(text) + "' is not a size")) << text;
  }
}

TEST(CliSize, RefusesPartsOfAByte) {
  for (const char* text : {"0.5", "1.5B", "0.1KiB", "1.0001kB"}) {
    EXPECT_THAT(refusal(text), HasSubstr("whole number of bytes")) << text;
  }
}

TEST(CliSize, RefusesWhatDoesNotFit) {
  for (const char* text : {"16EiB", "18446744073709551616", "18.5EB", "99999999999999999999999GiB"}) {
    EXPECT_THAT(refusal(text), HasSubstr("64 bits")) << text;
  }
}

TEST(CliSeconds, ReadsMillisecondsExactly) {
  EXPECT_EQ(parse_seconds("20").count(), 20000);
  EXPECT_EQ(parse_seconds("0.5").count(), 500);
  EXPECT_EQ(parse_seconds("0.001").count(), 1);
  EXPECT_EQ(parse_seconds("0").count(), 0);
  for (const char* text : {"", "-1", "1s", "0.0001", "1000000001", "99999999999999999999", "1."}) {
    EXPECT_THROW(static_cast<void>(parse_seconds(text)), usage_error) << text;
  }
}

TEST(CliWhole, KeepsToItsRange) {
  EXPECT_EQ(parse_whole("1", 1, 10), 1U);
  EXPECT_EQ(parse_whole("10", 1, 10), 10U);
  for (const char* text : {"0", "11", "-1", "1.0", "", "one", "18446744073709551617"}) {
    EXPECT_THROW(static_cast<void>(parse_whole(text, 1, 10)), usage_error) << text;
  }
}

TEST(CliFormat, BytesReadAsPeopleWriteThem) {
  const std::vector<std::pair<std::uint64_t, std::string>> table{
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.5 KiB"},
      {268435456, "256 MiB"},
      {1073741823, "1.0 GiB"},
      {1099511627776, "1 TiB"},
      {18446744073709551615U, "16.0 EiB"},
  };
  for (const auto& [bytes, text] : table) {
    EXPECT_EQ(format_bytes(bytes), text);
  }
}

}  // namespace
