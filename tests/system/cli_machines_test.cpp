// SPDX-License-Identifier: Apache-2.0
// Goal: `topology --json` says what the files say, of this machine and of every recorded one. Method: the test
// reads the same files with a few lines of its own.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "system/cli_child.hpp"

namespace {

using numapool::tests::run_cli;
namespace fs = std::filesystem;

std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::set<unsigned> numbers_of(const std::string& list) {
  std::set<unsigned> numbers;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const auto first = static_cast<unsigned>(std::stoul(part));
    const auto last = dash == std::string::npos ? first : static_cast<unsigned>(std::stoul(part.substr(dash + 1)));
    for (unsigned number = first; number <= last; ++number) {
      numbers.insert(number);
    }
  }
  return numbers;
}

std::vector<unsigned> node_folders(const fs::path& root) {
  std::vector<unsigned> ids;
  const fs::path nodes = root / "sys/devices/system/node";
  if (fs::exists(nodes)) {
    for (const auto& entry : fs::directory_iterator(nodes)) {
      const std::string name = entry.path().filename();
      if (name.rfind("node", 0) == 0 && name.find_first_not_of("0123456789", 4) == name.npos) {
        ids.push_back(static_cast<unsigned>(std::stoul(name.substr(4))));
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void expect_distances(const nlohmann::json& node, const fs::path& folder, const std::vector<unsigned>& ids) {
  std::istringstream words(read_line(folder / "distance"));
  std::vector<unsigned> distances{std::istream_iterator<unsigned>(words), {}};
  if (distances.size() != ids.size()) {
    return;  // a damaged file: the topology's own tests say what becomes of it
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(node.at("distances").at(std::to_string(ids[i])), distances[i]);
  }
}

void expect_agrees(const nlohmann::json& document, const fs::path& root) {
  const std::vector<unsigned> ids = node_folders(root);
  const auto& nodes = document.at("nodes");
  if (ids.empty()) {
    EXPECT_EQ(document.at("source"), "synthetic");
    EXPECT_EQ(nodes.size(), 1U);
    return;
  }
  EXPECT_EQ(document.at("source"), "sysfs");
  ASSERT_EQ(nodes.size(), ids.size());
  const auto online = numbers_of(read_line(root / "sys/devices/system/cpu/online"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const fs::path folder = root / "sys/devices/system/node" / ("node" + std::to_string(ids[i]));
    EXPECT_EQ(nodes[i].at("id"), ids[i]);
    if (fs::exists(folder / "cpulist")) {
      std::set<unsigned> expected;
      for (const unsigned cpu : numbers_of(read_line(folder / "cpulist"))) {
        if (online.empty() || online.count(cpu) != 0) {
          expected.insert(cpu);
        }
      }
      EXPECT_EQ(numbers_of(nodes[i].at("cpus")), expected);
    }
    expect_distances(nodes[i], folder, ids);
  }
}

nlohmann::json topology_of(const std::string& sysroot) {
  const auto result =
      sysroot.empty() ? run_cli({"topology", "--json"}) : run_cli({"topology", "--json", "--sysroot", sysroot});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  return nlohmann::json::parse(result.out);
}

class scratch_folder {
 public:
  scratch_folder() {
    std::string name = fs::temp_directory_path() / "numapool-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~scratch_folder() { fs::remove_all(path_); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(CliTopology, AgreesWithThisMachine) {
  const auto document = topology_of("");
  expect_agrees(document, "/");
  EXPECT_FALSE(document.at("allowed_cpus").get<std::string>().empty());
  EXPECT_FALSE(document.at("allowed_nodes").get<std::string>().empty());
}

TEST(CliTopology, AgreesWithEveryRecordedMachine) {
  const char* machines = std::getenv("NUMAPOOL_MACHINES");
  ASSERT_NE(machines, nullptr) << "run this test by ctest";
  if (!fs::exists(machines)) {
    GTEST_SKIP() << "no recorded machines: " << machines << " is missing";
  }
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(machines)) {
    if (fs::exists(entry.path() / "sys")) {
      SCOPED_TRACE(entry.path());
      expect_agrees(topology_of(entry.path()), entry.path());
      ++seen;
    }
  }
  EXPECT_NE(seen, 0U);
}

TEST(CliTopology, ASavedMachineReadsAsThisOneAndIsDrawn) {
  const scratch_folder folder;
  const std::string machine = folder.path() / "machine";
  const fs::path picture = folder.path() / "machine.svg";
  const auto saved = run_cli({"topology", "--json", "--save", machine, "--svg", picture});
  ASSERT_EQ(saved.status, 0) << saved.out << saved.err;
  auto here = nlohmann::json::parse(saved.out);
  auto there = topology_of(machine);
  for (auto* document : {&here, &there}) {
    for (auto& node : document->at("nodes")) {
      node.erase("free_bytes");  // read twice, and it moves
    }
  }
  EXPECT_EQ(here, there);
  std::ostringstream svg;
  svg << std::ifstream(picture).rdbuf();
  EXPECT_THAT(svg.str(), testing::StartsWith("<?xml"));
  EXPECT_THAT(svg.str(), testing::EndsWith("</svg>\n"));
}

}  // namespace
