// SPDX-License-Identifier: Apache-2.0

// Goal: on no machine and under no restriction is anything chosen that the process may not use, the
// nearest is the nearest, and a machine that is saved reads back the same.
// Method: machines and masks at random, as files; what is read is held against the facts that were
// written, by rules written anew here. NUMAPOOL_SEED replays one: a failure names it.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

#include "device/device_chain.hpp"
#include "pool/pool_core.hpp"
#include "support/fake_machine.hpp"
#include "support/random_machine.hpp"
#include "support/temporary_folder.hpp"
#include "support/topology_text.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

using test::random_gpu;
using test::random_machine;

/// In memory: hundreds of trees on a disk take minutes.
class written_machine {
 public:
  explicit written_machine(std::uint64_t seed) : facts(random_machine::make(seed)), files(nullptr) {
    facts.write(
        [this](const std::string& path, const std::string& text) { files.set(path, text + "\n"); });
  }
  [[nodiscard]] topology read() const { return topology_builder::read(files, nullptr); }

  const random_machine facts;
  test::fake_files files;
};

// Each in turn; the seed is in the trace of whatever fails.
template <typename Check>
void for_seeds(std::uint64_t count, Check check) {
  const char* const chosen = std::getenv("NUMAPOOL_SEED");
  const std::uint64_t first = chosen != nullptr ? std::stoull(chosen) : 1;
  const std::uint64_t last = chosen != nullptr ? first : count;
  for (std::uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("NUMAPOOL_SEED=" + std::to_string(seed));
    check(seed);
  }
}

template <typename Check>
void for_random_machines(Check check) {
  for_seeds(500, [&check](std::uint64_t seed) {
    const written_machine machine(seed);
    check(machine);
  });
}

// ---- what should be, from the facts

cpu_set online_cpus_of(const random_machine& facts, std::uint32_t id) {
  return facts.nodes.at(id).listed_cpus & facts.online_cpus;
}

cpu_set usable_cpus_of(const random_machine& facts, std::uint32_t id) {
  return facts.nodes.at(id).listed_cpus & facts.usable_cpus();
}

std::uint32_t distance_between(const random_machine& facts, std::uint32_t from, std::uint32_t to) {
  const auto& row = facts.nodes.at(from).distances;
  const auto place =
      static_cast<std::size_t>(std::distance(facts.nodes.begin(), facts.nodes.find(to)));
  // A row that is too short says nothing about anybody.
  return row.size() == facts.nodes.size() ? row[place] : std::numeric_limits<std::uint32_t>::max();
}

template <typename Accepts>
node_id nearest(const random_machine& facts, std::uint32_t from, Accepts accepts) {
  if (accepts(from)) {
    return node_id(from);
  }
  std::optional<std::uint32_t> best;
  for (const auto& [id, node] : facts.nodes) {
    if (accepts(id) &&
        (!best || distance_between(facts, from, id) < distance_between(facts, from, *best))) {
      best = id;
    }
  }
  return best ? node_id(*best) : node_id::unknown;
}

// ---- the properties

TEST(RandomMachines, AreReadAsTheyWereWritten) {
  for_random_machines([](const written_machine& machine) {
    const topology read = machine.read();
    EXPECT_EQ(read.online_cpus(), machine.facts.online_cpus);
    EXPECT_EQ(read.allowed_cpus(), machine.facts.usable_cpus());
    ASSERT_EQ(read.node_count(), machine.facts.nodes.size());
    for (const auto& [id, facts] : machine.facts.nodes) {
      const node_info* const node = read.find(node_id(id));
      ASSERT_NE(node, nullptr) << id;
      EXPECT_EQ(node->cpus, online_cpus_of(machine.facts, id));
      EXPECT_EQ(node->usable_cpus, usable_cpus_of(machine.facts, id));
      EXPECT_EQ(node->memory_bytes, facts.memory_kib * 1024);
      EXPECT_EQ(node->free_bytes, facts.free_kib * 1024);
      for (const cpu_id cpu : node->cpus) {
        EXPECT_EQ(read.node_of_cpu(cpu), node_id(id)) << cpu.value();
      }
    }
  });
}

TEST(RandomMachines, NeverHaveANodeChosenThatMayNotBeUsed) {
  for_random_machines([](const written_machine& machine) {
    const topology read = machine.read();
    const random_machine& facts = machine.facts;
    for (const auto& entry : facts.nodes) {
      const std::uint32_t id = entry.first;
      SCOPED_TRACE("from node " + std::to_string(id) + "\n" + tests::describe(read));
      EXPECT_EQ(read.nearest_usable_node(node_id(id)), nearest(facts, id, [&](std::uint32_t to) {
                  return !usable_cpus_of(facts, to).empty();
                }));
      EXPECT_EQ(read.nearest_memory_node(node_id(id)), nearest(facts, id, [&](std::uint32_t to) {
                  const bool is_a_gpus = read.find(node_id(to))->gpu_pci_address.has_value();
                  return facts.nodes.at(to).memory_kib != 0 && (to == id || !is_a_gpus) &&
                         facts.usable_nodes().contains(node_id(to));
                }));
    }
  });
}

TEST(RandomMachines, NeverHaveAWorkerOutsideWhatIsAllowed) {
  for_random_machines([](const written_machine& written) {
    test::fake_machine machine(test::machine_plan::one_node());
    const auto nodes = std::make_shared<const topology>(written.read());
    machine.threads().set_allowed(nodes->allowed_cpus());
    worker_pool_options options;
    options.workers_per_node = 2;
    const auto pool = pool_access::make(machine.platform(), nodes, options);
    for (const auto& [id, node] : written.facts.nodes) {
      boost::system::error_code error;
      try {
        pool->submit(node_id(id), [] {});
      } catch (const numapool::error& refused) {
        error = refused.code();
      }
      const bool has_none = nodes->nearest_usable_node(node_id(id)).is_unknown();
      EXPECT_EQ(error, has_none ? make_error_code(errc::no_workers) : boost::system::error_code());
    }
    for (const auto& thread : machine.threads().history()) {
      EXPECT_FALSE(thread.cpus.empty()) << thread.name;
      EXPECT_TRUE(thread.cpus.is_subset_of(written.facts.usable_cpus()))
          << thread.name << " on " << thread.cpus.to_list();
    }
  });
}

// What the kernel's files say of a GPU, by the rules: its node; else the one node that holds all of
// its CPUs, where there are several to tell apart; else the only one there is.
std::optional<std::uint32_t> reported_node(const random_machine& facts, const random_gpu& gpu) {
  if (gpu.node) {
    return gpu.node;
  }
  std::set<std::uint32_t> with_cpus;
  std::set<std::uint32_t> with_its_cpus;
  for (const auto& [id, node] : facts.nodes) {
    const cpu_set online = online_cpus_of(facts, id);
    if (!online.empty()) {
      with_cpus.insert(id);
    }
    if (!(online & gpu.local_cpus).empty()) {
      with_its_cpus.insert(id);
    }
  }
  if (with_cpus.size() > 1 && with_its_cpus.size() == 1) {
    return *with_its_cpus.begin();
  }
  return with_cpus.size() == 1 ? std::optional<std::uint32_t>(*with_cpus.begin()) : std::nullopt;
}

TEST(RandomMachines, NeverHaveADeviceOnANodeThatMayNotBeUsed) {
  for_random_machines([](const written_machine& machine) {
    const topology read = machine.read();
    for (const random_gpu& gpu : machine.facts.gpus) {
      SCOPED_TRACE(gpu.address + "\n" + tests::describe(read));
      device::device_question question;
      question.address = pci_address::parse(gpu.address);
      const device_location where =
          device::locate(device::device_sources{machine.files, read}, question, {});
      const auto reported = reported_node(machine.facts, gpu);
      EXPECT_EQ(where.node,
                reported ? read.nearest_usable_node(node_id(*reported)) : node_id::unknown)
          << where.reason;
      EXPECT_NE(where.source, node_source::heuristic);
      if (!where.node.is_unknown()) {
        EXPECT_FALSE(usable_cpus_of(machine.facts, where.node.value()).empty());
      } else {
        EXPECT_NE(where.reason, "");
      }
    }
  });
}

TEST(RandomMachines, AreTheSameWhenSavedAndReadAgain) {
  for_seeds(25, [](std::uint64_t seed) {
    const random_machine facts = random_machine::make(seed);
    const tests::temporary_folder original;
    const tests::temporary_folder copy;
    facts.write(original.path());
    save_machine(copy.path(), {.root = original.path()});
    const topology read = topology::read({.root = original.path()});
    const topology again = topology::read({.root = copy.path()});
    EXPECT_EQ(tests::describe(again), tests::describe(read));
    for (const random_gpu& gpu : facts.gpus) {
      const pci_address address = pci_address::parse(gpu.address);
      EXPECT_EQ(locate_device(address, again, {.root = copy.path()}).node,
                locate_device(address, read, {.root = original.path()}).node)
          << gpu.address;
    }
  });
}

}  // namespace
}  // namespace numapool
