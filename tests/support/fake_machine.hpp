// SPDX-License-Identifier: Apache-2.0
#pragma once

// A whole simulated machine behind the seam: files, threads, memory and registrar that agree with each other, with every
// call counted and any of them made to fail. It must outlive the pools and buffers on it, and checks at its end that
// nothing was left. Threads: safe to share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

#include "support/fake_files.hpp"
#include "support/fake_memory.hpp"
#include "support/fake_registrar.hpp"
#include "support/fake_threads.hpp"
#include "support/fault_injector.hpp"

namespace numapool::test {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t gib = 1024 * mib;

struct node_plan {
  std::uint32_t id = 0;
  std::string cpus;                            ///< the kernel's list; empty: memory only
  std::uint64_t memory_bytes = 64 * gib;       ///< 0: CPUs only
  std::optional<std::uint64_t> free_bytes;     ///< empty: nine tenths
  std::vector<std::uint32_t> distances;        ///< to the nodes in their order; empty: 10 to itself, 20 to others
  std::optional<std::string> gpu;              ///< its memory is the GPU's at this PCI address
  std::uint64_t huge_pages = 0;                ///< of 2 MiB, free, in the hugetlb pool
};

struct machine_plan {
  std::vector<node_plan> nodes;     ///< none: a machine whose kernel shows no nodes, with the CPUs below
  std::string allowed_cpus;         ///< empty: all
  std::string allowed_nodes;        ///< empty: all
  std::string kernel = "6.1.0-18-amd64";

  [[nodiscard]] static machine_plan one_node();     ///< CPUs 0-3
  [[nodiscard]] static machine_plan two_nodes();    ///< CPUs 0-3 and 4-7
  [[nodiscard]] static machine_plan memory_only();  ///< 0 and 1 as above, 2 with memory alone, nearer to 1
  [[nodiscard]] static machine_plan cpu_only();     ///< 0 and 1 as above, 2 with CPUs 8-11 and no memory, nearer to 1
  [[nodiscard]] static machine_plan gpu_memory();   ///< 0 and 1 as above, 2 and 10 the memory of GPUs
  [[nodiscard]] static machine_plan sparse();       ///< 3 with CPUs 4-7, 64 with CPUs 128-131
  [[nodiscard]] static machine_plan no_nodes();     ///< CPUs 0-3, no node directories
};

class fake_machine {
 public:
  explicit fake_machine(const machine_plan& plan);
  /// A recorded machine, read from its folder.
  explicit fake_machine(const std::string& recorded_root);
  ~fake_machine();
  fake_machine(const fake_machine&) = delete;
  fake_machine& operator=(const fake_machine&) = delete;

  /// What numapool is given: the fakes below, through `faults()`.
  [[nodiscard]] platform::platform& platform() noexcept { return faults_->platform(); }
  [[nodiscard]] std::shared_ptr<const topology> nodes() const noexcept { return topology_; }
  /// Reads the topology anew, after the files have changed.
  void reread();
  [[nodiscard]] std::unique_ptr<worker_pool> make_pool(const worker_pool_options& options = {});

  [[nodiscard]] fault_injector& faults() noexcept { return *faults_; }
  [[nodiscard]] fake_files& files() noexcept { return *files_; }
  [[nodiscard]] fake_threads& threads() noexcept { return *threads_; }
  [[nodiscard]] fake_memory& memory() noexcept { return *memory_; }
  [[nodiscard]] fake_registrar& registrar() noexcept { return registrar_; }

  /// A device on each node given, in that order; the address of the first is 0000:10:00.0, of the next 0000:11:00.0.
  /// An unknown node: the kernel says -1.
  void add_devices(const std::vector<node_id>& nodes);
  /// A memory cgroup of this process.
  void set_cgroup_memory(std::uint64_t limit_bytes, std::uint64_t usage_bytes, std::uint64_t file_cache_bytes = 0);
  void set_cpu_quota(const std::string& cpu_max);

 private:
  void assemble();
  void write_live_files();

  std::unique_ptr<fake_files> files_;
  std::shared_ptr<const topology> topology_;
  std::unique_ptr<fake_threads> threads_;
  std::unique_ptr<fake_memory> memory_;
  fake_registrar registrar_;
  std::unique_ptr<platform::platform> raw_;
  std::unique_ptr<fault_injector> faults_;
};

}  // namespace numapool::test
