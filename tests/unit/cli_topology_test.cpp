// SPDX-License-Identifier: Apache-2.0
// Goal: a machine's three renderings say all of it, by the documented names. Method: machines made
// of plain values.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/topology_facts.hpp"

namespace {

using namespace numapool;
using namespace numapool::cli;
using testing::HasSubstr;
using testing::Not;

// Node 0 with CPUs, sparse node 7 that is a GPU's memory and whose memory this process may not
// take.
topology_facts two_nodes() {
  node_info host;
  host.id = node_id(0);
  host.kind = node_kind::cpu_and_memory;
  host.cpus = cpu_set::parse_list("0-15,32-47");
  host.usable_cpus = cpu_set::parse_list("0-15");
  host.memory_bytes = std::uint64_t{256} << 30U;
  host.free_bytes = std::uint64_t{64} << 30U;
  host.allowed_memory = true;
  host.distances = {{node_id(0), 10}, {node_id(7), 80}};
  host.huge_pages = {{std::size_t{2} << 20U, 512, 100}, {std::size_t{1} << 30U, 0, 0}};
  node_info gpu;
  gpu.id = node_id(7);
  gpu.kind = node_kind::memory_only;
  gpu.memory_bytes = std::uint64_t{96} << 30U;
  gpu.free_bytes = gpu.memory_bytes;
  gpu.gpu_pci_address = "0009:01:00.0";
  gpu.distances = {{node_id(0), 80}};  // the firmware does not say the other
  topology_facts machine;
  machine.nodes = {host, gpu};
  machine.online_cpus = host.cpus;
  machine.allowed_cpus = host.usable_cpus;
  machine.allowed_nodes = {node_id(0)};
  machine.cpu_nodes = 1;
  machine.single_node = true;
  machine.warnings = {"node 7: <distance> \"&\" is short"};
  return machine;
}

TEST(CliTopologyJson, HasTheDocumentedNames) {
  const auto document = nlohmann::json::parse(topology_json(two_nodes()).dump());
  const auto expected = nlohmann::json::parse(R"({
    "nodes": [
      {"id": 0, "kind": "cpu+memory", "gpu": null, "cpus": "0-15,32-47", "usable_cpus": "0-15",
       "memory_bytes": 274877906944, "free_bytes": 68719476736, "distances": {"0": 10, "7": 80},
       "allowed_memory": true, "hugepages": [{"size_bytes": 2097152, "total": 512, "free": 100},
                                             {"size_bytes": 1073741824, "total": 0, "free": 0}]},
      {"id": 7, "kind": "memory-only", "gpu": "0009:01:00.0", "cpus": "", "usable_cpus": "",
       "memory_bytes": 103079215104, "free_bytes": 103079215104, "distances": {"0": 80},
       "allowed_memory": false, "hugepages": []}],
    "online_cpus": "0-15,32-47", "allowed_cpus": "0-15", "allowed_nodes": "0", "cpu_nodes": 1,
    "single_node": true, "cpu_quota": null, "source": "sysfs",
    "warnings": ["node 7: <distance> \"&\" is short"]})");
  EXPECT_EQ(document, expected) << document.dump(2);
}

TEST(CliTopologyText, SaysAllOfIt) {
  topology_facts machine = two_nodes();
  machine.cpu_quota = 1.5;
  EXPECT_EQ(topology_text(machine), R"(2 nodes, 1 with CPUs; 32 CPUs online
this process may use 16 CPUs and the memory of node 0
its cgroups allow the time of 1.50 CPUs

node  kind              CPUs        usable CPUs       memory    free  huge pages free
   0  cpu+memory        0-15,32-47  0-15             256 GiB  64 GiB  2 MiB: 100 of 512
                                                                      1 GiB: 0 of 0
   7  memory-only       none        none              96 GiB  96 GiB  -
      GPU 0009:01:00.0                           not allowed

distances (10 is local)
from\to   0   7
      0  10  80
      7  80   -

warnings
  node 7: <distance> "&" is short
)");
}

TEST(CliTopologyText, AllUsableIsSaidInAWord) {
  topology_facts machine = two_nodes();
  machine.nodes.front().usable_cpus = machine.nodes.front().cpus;
  EXPECT_THAT(topology_text(machine), HasSubstr("0-15,32-47  all "));
}

TEST(CliTopologyText, LongListsKeepTheirColumn) {
  topology_facts machine = two_nodes();
  for (std::uint32_t cpu = 0; cpu < 256; cpu += 2) {
    machine.nodes.front().cpus.insert(cpu_id(cpu));
  }
  std::size_t longest = 0;
  std::string text = topology_text(machine);
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    longest = std::max(longest, end);
  }
  EXPECT_LT(longest, 120U);
}

TEST(CliTopologySvg, EscapesAndBalances) {
  const std::string svg = topology_svg(two_nodes());
  EXPECT_THAT(svg, HasSubstr("&lt;distance&gt; &quot;&amp;&quot; is short"));
  EXPECT_THAT(svg, Not(HasSubstr("<distance>")));
  EXPECT_THAT(svg, HasSubstr("GPU 0009:01:00.0"));
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("<text "), count("</text>"));
  EXPECT_EQ(count("class=\"cell\""), 4U);  // the matrix of two nodes
}

TEST(CliTopologySvg, DrawsAMachineWithoutNodes) {
  EXPECT_THAT(topology_svg(topology_facts()), HasSubstr("</svg>"));
}

}  // namespace
