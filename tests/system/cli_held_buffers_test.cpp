// SPDX-License-Identifier: Apache-2.0
// Goal: what `allocate --json --hold` says of a buffer is what the kernel says of it to another process: address, bytes,
// node, residency, lock. Method: this process is the other one, and reads /proc/PID meanwhile.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "system/cli_child.hpp"

namespace {

using numapool::tests::cli_child;
using numapool::tests::run_cli;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

struct range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] bool holds(std::uint64_t address) const { return address >= begin && address < end; }
};

range range_of(const nlohmann::json& buffer) {
  const std::uint64_t begin = std::stoull(buffer.at("address").get<std::string>(), nullptr, 16);
  return {begin, begin + buffer.at("mapped_bytes").get<std::uint64_t>()};
}

std::string proc_path(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// Bytes by node, of all mappings that begin in the range.
std::map<unsigned, std::uint64_t> numa_maps_bytes(pid_t pid, const range& where) {
  std::map<unsigned, std::uint64_t> bytes;
  std::ifstream file(proc_path(pid, "numa_maps"));
  for (std::string line; std::getline(file, line);) {
    if (!where.holds(std::stoull(line, nullptr, 16))) {
      continue;
    }
    std::map<unsigned, std::uint64_t> pages;
    std::uint64_t page_kib = 4;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      unsigned node = 0;
      unsigned long count = 0;
      if (std::sscanf(word.c_str(), "N%u=%lu", &node, &count) == 2) {
        pages[node] = count;
      } else if (word.rfind("kernelpagesize_kB=", 0) == 0) {
        page_kib = std::stoull(word.substr(word.find('=') + 1));
      }
    }
    for (const auto& [node, count] : pages) {
      bytes[node] += count * page_kib * 1024;
    }
  }
  return bytes;
}

std::uint64_t present_bytes(pid_t pid, const range& where) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::uint64_t> entries(where.bytes() / page);
  std::ifstream file(proc_path(pid, "pagemap"), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(where.begin / page * sizeof(std::uint64_t)));
  file.read(reinterpret_cast<char*>(entries.data()),
            static_cast<std::streamsize>(entries.size() * sizeof(std::uint64_t)));
  EXPECT_TRUE(file.good());
  constexpr std::uint64_t present = std::uint64_t{1} << 63U;
  const auto count =
      std::count_if(entries.begin(), entries.end(), [](std::uint64_t entry) { return (entry & present) != 0; });
  return static_cast<std::uint64_t>(count) * page;
}

struct smaps_sums {
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t locked = 0;
  std::uint64_t huge = 0;
};

// Sums over the mappings that lie in the range; none may cross its ends.
smaps_sums smaps_of(pid_t pid, const range& where) {
  smaps_sums sums;
  bool inside = false;
  std::ifstream file(proc_path(pid, "smaps"));
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long kib = 0;
    char key[64] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin < where.end && end > where.begin;
      EXPECT_TRUE(!inside || (begin >= where.begin && end <= where.end)) << line;
      sums.size += inside ? end - begin : 0;
    } else if (inside && std::sscanf(line.c_str(), "%63[^:]: %lu kB", key, &kib) == 2) {
      const std::string name = key;
      sums.resident += name == "Rss" ? kib * 1024 : 0;
      sums.locked += name == "Locked" ? kib * 1024 : 0;
      sums.huge += name == "AnonHugePages" ? kib * 1024 : 0;
    }
  }
  return sums;
}

void expect_kernel_agrees(pid_t pid, const nlohmann::json& buffer, std::uint64_t asked_bytes) {
  const range where = range_of(buffer);
  EXPECT_EQ(buffer.at("requested_bytes"), asked_bytes);
  EXPECT_GE(where.bytes(), asked_bytes);
  const unsigned node = buffer.at("node_requested");
  const auto& placement = buffer.at("placement");
  EXPECT_EQ(placement.at("verified"), "full");
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(placement.at("pages_checked"), where.bytes() / page);
  std::map<unsigned, std::uint64_t> said;
  for (const auto& [key, count] : placement.at("pages_by_node").items()) {
    said[static_cast<unsigned>(std::stoul(key))] = count.get<std::uint64_t>() * page;
  }
  EXPECT_EQ(said, numa_maps_bytes(pid, where));
  EXPECT_EQ(placement.at("share_on_node").get<double>(),
            static_cast<double>(said[node]) / static_cast<double>(where.bytes()));
  EXPECT_EQ(present_bytes(pid, where), where.bytes());
  const smaps_sums kernel = smaps_of(pid, where);
  EXPECT_EQ(kernel.size, where.bytes());
  EXPECT_EQ(kernel.resident, where.bytes());
  const bool is_locked = buffer.at("pin").at("obtained") == "mlock";
  EXPECT_EQ(kernel.locked, is_locked ? where.bytes() : 0);
  if (buffer.at("huge_bytes").is_number()) {
    EXPECT_EQ(buffer.at("huge_bytes"), kernel.huge);
  }
}

TEST(CliAllocate, AnotherProcessAgreesWithWhatIsHeld) {
  cli_child child({"allocate", "--all-nodes", "--size", "256MiB", "--verify", "full", "--hold", "60", "--json"});
  const auto document = nlohmann::json::parse(child.read_document(50));
  ASSERT_TRUE(document.contains("buffers")) << document.dump(2);
  EXPECT_EQ(document.at("pid"), child.pid());
  EXPECT_GE(document.at("buffers").size(), 1U);
  for (const auto& buffer : document.at("buffers")) {
    SCOPED_TRACE(buffer.dump());
    expect_kernel_agrees(child.pid(), buffer, 256 * mib);
  }
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 128 + SIGTERM);
  EXPECT_EQ(child.err, "");
}

TEST(CliAllocate, BasePagesAndOddSizesAreHeldAsSaid) {
  cli_child child({"allocate", "--all-nodes", "--size", "10000001", "--count", "3", "--pages", "base", "--pin", "none",
                   "--verify", "full", "--hold", "60", "--json"});
  const auto document = nlohmann::json::parse(child.read_document(50));
  ASSERT_TRUE(document.contains("buffers")) << document.dump(2);
  EXPECT_EQ(document.at("buffers").size() % 3, 0U);
  for (const auto& buffer : document.at("buffers")) {
    SCOPED_TRACE(buffer.dump());
    EXPECT_EQ(buffer.at("page_kind"), "base");
    expect_kernel_agrees(child.pid(), buffer, 10000001);
  }
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 128 + SIGINT);
}

TEST(CliAllocate, HoldEndsByItself) {
  const auto result = run_cli({"allocate", "--all-nodes", "--size", "64KiB", "--hold", "0.2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST(CliAllocate, OneFailureReleasesTheOthers) {
  // Nothing is quicker than the kernel at clearing pages: the deadline passes.
  const auto result = run_cli({"allocate", "--all-nodes", "--size", "16MiB", "--count", "3", "--timeout", "0.001",
                               "--pages", "base", "--json"});
  if (result.status == 0) {
    GTEST_SKIP() << "a machine that fills 48 MiB within a millisecond";
  }
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(nlohmann::json::parse(result.out).at("error").at("code"), "timed_out");
}

TEST(CliAllocate, TheTableNamesEachBuffer) {
  const auto result = run_cli({"allocate", "--all-nodes", "--size", "4MiB", "--count", "2", "--pages", "base",
                               "--verify", "full", "--threads", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("100 % of 1024 ("));
  EXPECT_THAT(result.out, testing::HasSubstr("\n1     "));
}

}  // namespace
