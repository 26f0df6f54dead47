// SPDX-License-Identifier: Apache-2.0

// Goal: `numapool doctor` gives each check a line for people and an object for machines. Method:
// checks made by hand.

#include <gtest/gtest.h>

#include "cli/doctor_report.hpp"

namespace numapool::cli {
namespace {

using json = nlohmann::ordered_json;

const std::vector<check> checks = {
    {"nodes", check_status::ok, "0-1", "memory can be placed by node", ""},
    {"memlock", check_status::warn, "8 MiB", "buffers stay unlocked", "ulimit -l unlimited"},
    {"environment", check_status::info, "A=b\nc", "it is in force", ""}};

TEST(CliDoctor, TextIsALineACheckAndACount) {
  EXPECT_EQ(doctor_text(checks),
            "ok    nodes: 0-1; memory can be placed by node\n"
            "warn  memlock: 8 MiB; buffers stay unlocked; to do: ulimit -l unlimited\n"
            "info  environment: A=b c; it is in force\n"
            "\n"
            "0 failures, 1 warning\n");
}

TEST(CliDoctor, JsonIsAsDocumented) {
  const json document = doctor_json(checks);
  ASSERT_EQ(document["checks"].size(), 3U);
  EXPECT_EQ(document["checks"][1], json::parse(R"({
    "name": "memlock", "status": "warn", "value": "8 MiB", "meaning": "buffers stay unlocked",
    "fix": "ulimit -l unlimited"})"));
  EXPECT_EQ(document["checks"][0]["fix"], nullptr);
}

}  // namespace
}  // namespace numapool::cli
