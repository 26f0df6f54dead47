// SPDX-License-Identifier: Apache-2.0

// Where the calling thread runs, and moving it to a node.

#include <string>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "base/failures.hpp"
#include "platform/platform.hpp"

namespace numapool {
namespace {

[[noreturn]] void raise_not_pinned(node_id node, std::string message, boost::system::error_code cause = {}) {
  base::raise({errc::worker_not_pinned, operation::start_workers, node, 0, cause, std::move(message)});
}

/// The node's CPUs that the process may run on, as the kept snapshot has it: taken before anybody
/// here moved a thread.
const cpu_set& usable_cpus_of(const topology& machine, node_id node) {
  const node_info* const found = machine.find(node);
  if (found == nullptr || found->cpus.empty()) {
    base::raise({errc::unknown_node,
                 operation::start_workers,
                 node,
                 0,
                 {},
                 "no CPUs found for " + to_string(node) +
                     (found == nullptr ? ": there is no such node" : ": it has memory alone")});
  }
  if (found->usable_cpus.empty()) {
    raise_not_pinned(node, "none of the CPUs of " + to_string(node) + " (" + found->cpus.to_list() +
                               ") may be used by this process, which has " + machine.allowed_cpus().to_list());
  }
  return found->usable_cpus;
}

}  // namespace

node_id current_node() noexcept {
  cpu_id cpu;
  node_id node;
  return platform::this_machine().threads.current_cpu(cpu, node) ? node_id::unknown : node;
}

cpu_set pin_thread_to_node(node_id node) {
  const auto machine = topology::system();
  const cpu_set& cpus = usable_cpus_of(*machine, node);
  platform::threads& threads = platform::this_machine().threads;
  cpu_set before;
  cpu_set obtained;
  boost::system::error_code failed = threads.get_affinity(before);
  if (!failed) {
    failed = threads.set_affinity(cpus);
  }
  if (failed) {
    raise_not_pinned(node,
                     "the kernel refused to pin the thread to the CPUs " + cpus.to_list() + " of " + to_string(node) +
                         ": " + failed.message(),
                     failed);
  }
  failed = threads.get_affinity(obtained);
  if (failed) {
    static_cast<void>(threads.set_affinity(before));  // the promise is an unchanged mask
    raise_not_pinned(node, "the thread's CPU mask could not be read back: " + failed.message(), failed);
  }
  return obtained;
}

cpu_set pin_thread_to_node(node_id node, boost::system::error_code& error) {
  return base::catch_error(error, cpu_set(), [node] { return pin_thread_to_node(node); });
}

}  // namespace numapool
