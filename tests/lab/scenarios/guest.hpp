// SPDX-License-Identifier: Apache-2.0
#pragma once

// What scenarios in a guest stand on: the guest as its kernel shows it, read without the library;
// and one buffer held against the page oracle.

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <numapool/buffer.hpp>

#include "support/page_oracle.hpp"

namespace numapool::lab {

inline constexpr std::size_t mib = std::size_t{1} << 20U;

/// One node as sysfs has it.
struct guest_node {
  std::set<int> cpus;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;
  std::vector<int> distances;  ///< in the order of the online nodes
};

struct guest {
  std::map<int, guest_node> nodes;  ///< by id
  std::set<int> allowed_cpus;       ///< this process's, now
  std::set<int> allowed_nodes;

  [[nodiscard]] static guest read();
  /// Nodes that have memory and allow this process some.
  [[nodiscard]] std::set<int> memory_nodes() const;
  /// Nodes with CPUs that this process may run on.
  [[nodiscard]] std::set<int> usable_nodes() const;
  /// Of `among`, the nearest to `from` by its distances; ties to the lowest id; -1 of none.
  [[nodiscard]] int nearest(int from, const std::set<int>& among) const;
};

/// A PCI function with NVIDIA's vendor and class.
struct guest_gpu {
  std::string address;  ///< as sysfs names it
  int node = -1;
};

/// In PCI order, which is CUDA's where all are one model. A scenario fails in a guest with fewer
/// than two.
[[nodiscard]] std::vector<guest_gpu> read_gpus();
/// What makes the order a test: that "GPU k is on node k" would be wrong.
void expect_order_to_tell(const std::vector<guest_gpu>& gpus);

/// The kernel's list format, "0-3,8"; a scenario fails on anything else.
[[nodiscard]] std::set<int> read_list(const std::string& text);
/// The whole file without its final newline; "" when it is not there.
[[nodiscard]] std::string read_file(const std::string& path);
/// Writes, and fails the scenario when the kernel refuses.
void write_file(const std::string& path, const std::string& text);

/// A request for `size_bytes` on `node`, verified in full, not pinned.
[[nodiscard]] request ask(int node, std::size_t size_bytes);

/// That the handle's own placement is what the witnesses say, its page counts and its share too.
/// Returns what they say.
test::page_census expect_handle_is_right(const buffer& held, std::size_t witnesses = 3);
/// That, and that every page is on `node`.
void expect_all_on(const buffer& held, int node, std::size_t witnesses = 3);

/// CPUs that the threads named "numapool-<node>" of this process may run on, by their node.
[[nodiscard]] std::map<int, std::vector<std::set<int>>> worker_masks();
/// That each worker keeps to its node's CPUs and to the allowed ones.
void expect_workers_keep_to_their_nodes(const guest& here);

}  // namespace numapool::lab
