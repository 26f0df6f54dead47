// SPDX-License-Identifier: Apache-2.0

// numapool beside what people would otherwise take, all in one run. What is not installed is left
// out, and said to be.

#include "peers_bench.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <numapool/topology.hpp>

#include "bench_program.hpp"
#include "machine_watch.hpp"

namespace numapool::bench {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all.append(all.empty() ? "" : ", ").append(text);
  }
  return all.empty() ? "none" : all;
}

void tell(const std::string& key, const std::string& value) {
  benchmark::AddCustomContext(context_prefix + key, value);
}

int run(int argc, char** argv) {
  try {
    for (const auto& [key, value] : describe_machine()) {
      tell(key, value);
    }
    const node_id node = first_usable_node(*topology::system());
    // First of all: threads of others, and memory that comes by first touch, follow this thread.
    const cpu_set cpus = pin_thread_to_node(node);
    peer_report report;
    const auto memory = register_memory_peers(node, cpus, report);
    const auto dispatch = register_dispatch_peers(node, cpus, report);
    tell("measured on", "node " + std::to_string(node.value()));
    tell("peers", joined(report.versions));
    tell("peers missing", joined(report.missing));
    return run_benchmarks(argc, argv);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "numapool_peers_bench: %s\n", failed.what());
    return 1;
  }
}

}  // namespace
}  // namespace numapool::bench

int main(int argc, char** argv) {
  return numapool::bench::run(argc, argv);
}
