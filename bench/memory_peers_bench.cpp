// SPDX-License-Identifier: Apache-2.0

// Memory of a node, resident and zero: by the pool, by the original's way in C++ and in Rust, and
// by those that people would otherwise take. Each sample is looked at after the clock has stopped.

#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include <numapool/worker_pool.hpp>

#include "bench_program.hpp"
#include "block_check.hpp"
#include "machine_watch.hpp"
#include "memory_peers.hpp"
#include "original_way.hpp"
#include "peers_bench.hpp"
#include "raw_fill.hpp"
#include "region.hpp"

#if NUMAPOOL_PEER_RUST
#include "rust_original.hpp"
#endif

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

struct contenders {
  explicit contenders(node_id node_wanted) : node(node_wanted) {}

  worker_pool pool;
  node_id node;
  original_way original{node};
  unsigned workers = count_workers();
  raw_filler raw{workers};
  memory_peers peers;

  unsigned count_workers() {
    request smallest;
    smallest.size_bytes = base_page_bytes();
    smallest.node = node;
    return pool.allocate(smallest).workers();
  }
};

template <typename Made>
block block_of_made(Made made) {
  const auto owner = std::make_shared<Made>(std::move(made));
  return {owner, owner->data()};
}

void add_pool(contenders& all, const std::string& name, page_policy pages, populate_mode populate) {
  request ask;
  ask.node = all.node;
  ask.pages = pages;
  ask.populate = populate;
  ask.pin = pin_policy::none;  // nobody else's is locked
  all.peers.push_back({name,
                       [&all, ask](std::size_t size_bytes) {
                         request sized = ask;
                         sized.size_bytes = size_bytes;
                         return block_of_made(all.pool.allocate(sized));
                       },
                       {}});
}

void add_originals(contenders& all, const cpu_set& cpus, peer_report& report) {
  all.peers.push_back(
      {std::string(original_name),
       [&all](std::size_t size_bytes) { return block_of_made(all.original.allocate(size_bytes)); },
       {}});
#if NUMAPOOL_PEER_RUST
  report.versions.emplace_back(NUMAPOOL_RUST_VERSION);
  const auto rust = std::make_shared<rust_original>(cpus);
  all.peers.push_back({"original, in Rust",
                       [rust](std::size_t size_bytes) { return rust->allocate(size_bytes); },
                       {}});
#else
  static_cast<void>(cpus);
  report.note_not_built_in("original, in Rust", "rust");
#endif
}

void add_contenders(contenders& all, const cpu_set& cpus, peer_report& report) {
  add_originals(all, cpus, report);
  add_pool(all, "numapool, huge pages", page_policy::thp, populate_mode::quiet);
  add_pool(all, "numapool, base pages, fast", page_policy::base, populate_mode::fast);
  add_pool(all, "numapool, base pages, quiet", page_policy::base, populate_mode::quiet);
  all.peers.push_back({"bare loop of as many threads, huge pages",
                       [&all](std::size_t size_bytes) {
                         return block_of_made(all.raw.fill(
                             size_bytes, {page_choice::huge, fill_choice::touch, false}));
                       },
                       {}});
  add_kernel_calls(all.peers);
  add_node_libraries(all.peers, all.node, report);
  add_general_allocators(all.peers, report);
}

std::int64_t count_page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt + used.ru_majflt;
}

// The machine's memory may differ between samples; whoever doubts one finds these in the JSON.
struct sample_facts {
  std::int64_t page_faults = 0;
  std::size_t samples = 0;
  double share_on_node = 0;
  bool is_placement_known = true;
};

// Gives the seconds until it is in hand. The memory is given back, whole, before the next.
double take_sample(contenders& all, const memory_peer& peer, std::size_t size_bytes,
                   sample_facts& facts) {
  all.raw.make_warm(size_bytes);
  const std::int64_t faults_before = count_page_faults();
  const auto begun = std::chrono::steady_clock::now();
  block made = peer.allocate(size_bytes);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  facts.page_faults += count_page_faults() - faults_before;
  ++facts.samples;
  check_resident_and_zero(made.data, size_bytes);
  const auto share = share_on_node(made.data, size_bytes, all.node);
  facts.is_placement_known = facts.is_placement_known && share.has_value();
  facts.share_on_node += share.value_or(0);
  made = {};
  if (peer.settle) {
    peer.settle();
  }
  return passed.count();
}

void note_facts(benchmark::State& state, const sample_facts& facts, std::size_t size_bytes) {
  const auto samples = static_cast<double>(facts.samples);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(size_bytes));
  state.counters["page_faults"] = static_cast<double>(facts.page_faults) / samples;
  if (facts.is_placement_known) {
    state.counters["share_on_node"] = facts.share_on_node / samples;
  }
}

void add(contenders& all, std::size_t size_bytes, const memory_peer& peer) {
  const std::string name = "memory/" + std::to_string(size_bytes / mib) + " MiB/" + peer.name;
  const auto measure = [&all, size_bytes, &peer](benchmark::State& state) {
    try {
      const machine_watch watch;
      sample_facts facts;
      for (auto unused : state) {
        static_cast<void>(unused);
        state.SetIterationTime(take_sample(all, peer, size_bytes, facts));
      }
      note_facts(state, facts, size_bytes);
      state.counters[others_share_counter] = watch.look().foreign_share;
    } catch (...) {
      skip_with_current_exception(state);
    }
  };
  // As in allocation_bench.cpp: enough of the small to measure, and the large once.
  const bool is_large = size_bytes >= 512 * mib;
  const int iterations = is_large ? 1 : size_bytes >= 32 * mib ? 2 : 20;
  auto* const added = benchmark::RegisterBenchmark(name.c_str(), measure);
  added->UseManualTime()->Iterations(iterations)->Unit(benchmark::kMicrosecond);
}

}  // namespace

std::shared_ptr<void> register_memory_peers(node_id node, const cpu_set& cpus,
                                            peer_report& report) {
  const auto held = std::make_shared<contenders>(node);
  contenders& all = *held;
  add_contenders(all, cpus, report);
  benchmark::AddCustomContext(context_prefix + std::string("threads of the pool"),
                              std::to_string(all.workers));
  for (const std::size_t size_bytes : {2 * mib, 64 * mib, 1024 * mib}) {
    for (const memory_peer& peer : all.peers) {
      add(all, size_bytes, peer);
    }
  }
  return held;
}

}  // namespace numapool::bench
