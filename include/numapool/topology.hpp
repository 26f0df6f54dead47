// SPDX-License-Identifier: Apache-2.0
#pragma once

// The machine's NUMA nodes, CPUs, memory and distances, and what this process may use of them, as
// an immutable snapshot.
// Threads: a topology never changes; any number of threads may read one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/error_code.hpp>

#include <numapool/node.hpp>

namespace numapool {

enum class node_kind : std::uint8_t { cpu_and_memory, cpu_only, memory_only, empty };
/// "cpu+memory", "cpu-only", "memory-only", "empty".
[[nodiscard]] std::string_view name(node_kind kind) noexcept;

/// One size of huge pages on one node.
struct huge_page_pool {
  std::size_t page_size_bytes = 0;
  std::uint64_t total_pages = 0;
  std::uint64_t free_pages = 0;
};

struct node_distance {
  node_id to;
  std::uint32_t distance = 0;  ///< 10 is local; as the firmware says
};

/// One node as the kernel reports it. A fact that could not be read is absent or zero and has a
/// line in warnings().
struct node_info {
  node_id id;
  node_kind kind =
      node_kind::empty;  ///< from the CPU list and the memory, never from has_cpu / has_memory
  cpu_set cpus;          ///< online CPUs of the kernel's cpulist (else cpumap), allowed or not
  cpu_set usable_cpus;   ///< those that this process may run on
  std::uint64_t memory_bytes = 0;              ///< MemTotal
  std::uint64_t free_bytes = 0;                ///< MemFree when the snapshot was taken
  bool allowed_memory = false;                 ///< this process may take memory from it
  std::optional<std::string> gpu_pci_address;  ///< set for a node that is a GPU's own memory
  std::vector<node_distance> distances;        ///< to every listed node, by ascending id
  std::vector<huge_page_pool> huge_pages;      ///< by ascending page size
};

enum class topology_source : std::uint8_t { sysfs, synthetic };
[[nodiscard]] std::string_view name(topology_source source) noexcept;

struct topology_options {
  /// The folder that holds `sys` and `proc`: empty for this machine, or a recorded machine, which
  /// then reads as itself.
  std::string root;
};

class topology {
 public:
  /// Reads a snapshot. Nodes are the node directories, never a count. A machine without node
  /// directories gets one synthetic node 0 with every allowed CPU. One bad file spoils one fact and
  /// adds a warning, not the machine. What this process may use: its CPU affinity (of the main
  /// thread) and Mems_allowed, cut by the cpuset cgroup (v1, v2 or both, wherever /proc/mounts
  /// says). Of a recorded machine: what the recording's own files say.
  /// Errors: errc::topology_unavailable when neither nodes nor CPUs can be read (a root that does
  /// not exist, no /proc).
  /// Cost: a few system calls a node and CPU; milliseconds.
  [[nodiscard]] static topology read(const topology_options& options = {});
  [[nodiscard]] static topology read(const topology_options& options,
                                     boost::system::error_code& error);

  /// This machine's topology, read once and kept for the process; a failed read is not kept, so
  /// that the next call tries again. Never null: throws or returns null with `error` set.
  [[nodiscard]] static std::shared_ptr<const topology> system();
  [[nodiscard]] static std::shared_ptr<const topology> system(boost::system::error_code& error);

  topology(topology&&) noexcept;
  topology& operator=(topology&&) noexcept;
  ~topology();

  /// By ascending id. Node ids are sparse: never index this by an id, use find().
  [[nodiscard]] std::span<const node_info> nodes() const noexcept;
  [[nodiscard]] const node_info* find(
      node_id node) const noexcept;  ///< null when there is no such node

  /// The node whose CPU list has `cpu`; the lowest when firmware lists it under several; unknown
  /// when none has it.
  [[nodiscard]] node_id node_of_cpu(cpu_id cpu) const noexcept;
  /// The node's online CPUs, allowed or not; null when there is no such node.
  [[nodiscard]] const cpu_set* cpus_of_node(node_id node) const noexcept;

  [[nodiscard]] std::size_t node_count() const noexcept;      ///< all nodes, memory-only ones too
  [[nodiscard]] std::size_t cpu_node_count() const noexcept;  ///< nodes that have online CPUs
  /// At most one node has CPUs. (A GH200 with its GPU-memory nodes is single-node for CPU
  /// placement.)
  [[nodiscard]] bool is_single_node() const noexcept;

  /// As the firmware says; empty when it does not say.
  [[nodiscard]] std::optional<std::uint32_t> distance(node_id from, node_id to) const noexcept;

  /// The nearest node with CPUs that this process may use: `from` itself if it has some, else by
  /// distance, ties to the lowest id; unknown when there is no such node. Unlisted distances count
  /// as farthest.
  [[nodiscard]] node_id nearest_usable_node(node_id from) const noexcept;
  /// Likewise for memory that this process may use; GPU-memory nodes only as `from` itself.
  [[nodiscard]] node_id nearest_memory_node(node_id from) const noexcept;

  [[nodiscard]] const cpu_set& online_cpus() const noexcept;
  [[nodiscard]] const cpu_set& allowed_cpus()
      const noexcept;  ///< online CPUs that this process may run on
  [[nodiscard]] const node_set& allowed_nodes()
      const noexcept;  ///< nodes that this process may take memory from
  /// CPUs' worth of time that the cgroups allow (cpu.max, cpu.cfs_quota_us); empty when unlimited.
  [[nodiscard]] std::optional<double> cpu_quota() const noexcept;

  [[nodiscard]] topology_source source() const noexcept;
  /// Whether this is the machine that we run on. Nothing is bound or allocated from a recorded
  /// machine.
  [[nodiscard]] bool is_this_machine() const noexcept;
  /// One sentence for each fact that could not be read or contradicts another.
  [[nodiscard]] std::span<const std::string> warnings() const noexcept;

 private:
  struct state;
  explicit topology(std::unique_ptr<const state> read) noexcept;
  friend class topology_builder;
  std::unique_ptr<const state> state_;
};

/// Copies the files that read() and the questions of device.hpp look at from the machine at
/// `options.root` to `directory` (made if it is not there), so that reading it back gives the same
/// topology and GPUs: what to attach to a report about a machine.
/// Errors: errc::machine_not_recorded naming the file; what was written before stays. A directory
/// that is not empty is one: what is left of another machine would read as part of this one, and a
/// link in it would be written through.
void save_machine(const std::string& directory, const topology_options& options = {});

/// The node of the CPU that the calling thread runs on at this moment; unknown where the kernel
/// does not say.
/// Cost: one system call (getcpu(2)).
[[nodiscard]] node_id current_node() noexcept;

/// Pins the calling thread to the CPUs of `node` that it may use now: the node's CPUs cut by the
/// allowed set, so that a mask is moved but never widened beyond what the process was given.
/// Returns the mask read back from the kernel.
/// Errors, with the mask unchanged: errc::topology_unavailable; errc::unknown_node when the node is
/// absent or has no CPUs; errc::worker_not_pinned when none of its CPUs is allowed or the kernel
/// refuses (`cause` has its answer).
cpu_set pin_thread_to_node(node_id node);
cpu_set pin_thread_to_node(node_id node, boost::system::error_code& error);

}  // namespace numapool
