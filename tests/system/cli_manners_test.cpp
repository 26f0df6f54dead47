// SPDX-License-Identifier: Apache-2.0
// Goal: the built program keeps its manners: help with an example, one sentence for what is wrong,
// exit statuses, one document with --json. Method: it runs as a child.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "system/cli_child.hpp"

namespace {

using numapool::tests::run_cli;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CliManners, HelpHasAnExampleOnStandardOutput) {
  const std::vector<std::vector<std::string>> commands{{}, {"topology"}, {"allocate"}};
  for (std::vector<std::string> words : commands) {
    words.emplace_back("--help");
    const auto result = run_cli(words);
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, AllOf(HasSubstr("Example"), HasSubstr("numapool ")));
    EXPECT_EQ(result.err, "");
  }
  EXPECT_THAT(run_cli({"--version"}).out, StartsWith("numapool "));
}

TEST(CliManners, BadUsageIsOneSentenceAndStatusTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{}, "no command was named"},
      {{"frobnicate"}, "no command 'frobnicate'; "},
      {{"bind", "--help"}, "no command 'bind'; "},  // was the general help, and status 0
      {{"topolgy", "--json"}, "no command 'topolgy' (did you mean 'topology'?)"},
      {{"topology", "--frobnicate"}, "no option '--frobnicate'; "},
      {{"allocate", "--nod", "0", "--size", "1"}, "no option '--nod' (did you mean '--node'?)"},
      {{"allocate", "--node", "0", "--sise=1"}, "no option '--sise=1' (did you mean '--size'?)"},
      {{"topology", "--sysroot"}, "--sysroot: wants exactly one value"},
      {{"topology", "--sysroot", ""}, "--sysroot"},
      {{"topology", "extra"}, "extra"},
      {{"allocate", "--size", "4096"}, "--node N, --device D or --all-nodes"},
      {{"allocate", "--node", "0"}, "--size"},
      {{"allocate", "--node", "0", "--all-nodes", "--size", "4096"}, "exclude each other"},
      {{"allocate", "--node", "0", "--node", "1", "--size", "4096"}, "--node: wants exactly one"},
      {{"allocate", "--node", "-1", "--size", "4096"}, "--node: '-1'"},
      {{"allocate", "--node", "0", "--size", "64K"}, "write 64KiB"},
      {{"allocate", "--node", "0", "--size", "-5"}, "--size: '-5'"},
      {{"allocate", "--node", "0", "--size", "64K", "--json"}, "write 64KiB"},
      {{"allocate", "--device", "gpu-1", "--size", "4096"}, "ordinal"},
      {{"allocate", "--node", "0", "--size", "1", "--pages", "big"}, "auto, base, thp, 2MiB, 1GiB"},
      {{"allocate", "--node", "0", "--size", "1", "--count", "0"}, "--count"},
      {{"allocate", "--node", "0", "--size", "1", "--threads", "0"}, "--threads"},
      {{"allocate", "--node", "0", "--size", "1", "--hold", "soon"}, "--hold: 'soon'"},
  };
  for (const auto& [words, part] : table) {
    const auto result = run_cli(words);
    EXPECT_EQ(result.status, 2) << part;
    EXPECT_EQ(result.out, "") << part;
    EXPECT_THAT(result.err, AllOf(StartsWith("numapool: "), HasSubstr(part)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(CliManners, WhatCannotBeDoneIsStatusOneInBothForms) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{"topology", "--sysroot", "/nonexistent"}, "topology_unavailable"},
      {{"topology", "--svg", "/nonexistent/machine.svg"}, "output_not_written"},
      {{"topology", "--save", "/proc/nonexistent"}, "machine_not_recorded"},
      {{"allocate", "--node", "1048575", "--size", "4096"}, "unknown_node"},
      {{"allocate", "--all-nodes", "--size", "0"}, "zero_size"},
      {{"allocate", "--all-nodes", "--size", "18446744073709551615"}, "size_overflow"},
  };
  for (const auto& [words, code] : table) {
    const auto text = run_cli(words);
    EXPECT_EQ(text.status, 1) << code;
    EXPECT_EQ(text.out, "") << code;
    EXPECT_THAT(text.err, StartsWith("numapool: "));
    std::vector<std::string> with_json = words;
    with_json.emplace_back("--json");
    const auto document = run_cli(with_json);
    EXPECT_EQ(document.status, 1) << code;
    EXPECT_EQ(document.err, "") << code;
    const auto error = nlohmann::json::parse(document.out).at("error");
    EXPECT_EQ(error.at("code"), code);
    for (const char* field : {"message", "operation", "node", "bytes", "errno"}) {
      EXPECT_TRUE(error.contains(field)) << field;
    }
  }
}

TEST(CliManners, NamesTheFolderThatIsNoMachine) {
  for (const char* command : {"topology", "devices"}) {
    EXPECT_THAT(run_cli({command, "--sysroot", "/nonexistent"}).err, HasSubstr("'/nonexistent'"));
  }
}

}  // namespace
