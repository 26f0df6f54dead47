// SPDX-License-Identifier: Apache-2.0

// The nodes, and what this process may use of them.

#include <string>

#include "diagnosis/checks.hpp"

namespace numapool::diagnosis {
namespace {

node_set nodes_with_cpus(const topology& nodes, bool usable) {
  node_set found;
  for (const node_info& node : nodes.nodes()) {
    if (usable ? !node.usable_cpus.empty() : !node.cpus.empty()) {
      found.insert(node.id);
    }
  }
  return found;
}

/// Nodes whose memory is a host's.
node_set host_memory(const topology& nodes) {
  node_set found;
  for (const node_info& node : nodes.nodes()) {
    if (node.memory_bytes != 0 && !node.gpu_pci_address) {
      found.insert(node.id);
    }
  }
  return found;
}

void check_warnings(examination& job) {
  for (const std::string& warning : job.nodes().warnings()) {
    job.add({"topology", check_status::warn, "contradiction or unreadable file", warning,
             "mount /sys and /proc whole, or report the machine: numapool topology --save DIR"});
  }
}

}  // namespace

void check_nodes(examination& job) {
  const topology& nodes = job.nodes();
  const node_set usable = nodes_with_cpus(nodes, true);
  check found{"nodes", check_status::ok, usable.to_list(), "memory can be placed by node", ""};
  if (nodes.source() == topology_source::synthetic) {
    found = {"nodes", check_status::warn, "none shown",
             "the kernel shows no NUMA nodes: all memory is taken for one node's",
             "mount sysfs in the container, or run a kernel and a runtime that have NUMA"};
  } else if (usable.empty()) {
    found = {"nodes", check_status::fail, "none usable", "this process may run on no node's CPUs",
             "widen its cpuset or its CPU affinity"};
  } else if (nodes.is_single_node()) {
    found.status = check_status::info;
    found.meaning = "one node has CPUs: there is nothing to choose";
  }
  job.add(std::move(found));
  check_warnings(job);
}

void check_allowed_cpus(examination& job) {
  const topology& nodes = job.nodes();
  const node_set closed = nodes_with_cpus(nodes, false) - nodes_with_cpus(nodes, true);
  check found{"allowed_cpus", check_status::ok, nodes.allowed_cpus().to_list(),
              "workers can run on every node", ""};
  if (!closed.empty()) {
    found.status = check_status::warn;
    found.meaning = "no worker can run on node " + closed.to_list() +
                    ": its memory is filled from another node";
    found.fix = "add CPUs of node " + closed.to_list() + " to the cpuset or the CPU affinity";
  } else if (nodes.allowed_cpus() != nodes.online_cpus()) {
    found.status = check_status::info;
    found.meaning = "of " + std::to_string(nodes.online_cpus().size()) + " online CPUs " +
                    std::to_string(nodes.allowed_cpus().size()) + " may be used";
  }
  job.add(std::move(found));
}

void check_allowed_memory(examination& job) {
  const node_set closed = host_memory(job.nodes()) - job.nodes().allowed_nodes();
  check found{"allowed_memory", check_status::ok, job.nodes().allowed_nodes().to_list(),
              "memory of every node may be taken", ""};
  if (!closed.empty()) {
    found.status = check_status::warn;
    found.meaning = "memory of node " + closed.to_list() + " may not be taken";
    found.fix = "add node " + closed.to_list() + " to the cpuset's mems (docker: --cpuset-mems)";
  }
  job.add(std::move(found));
}

}  // namespace numapool::diagnosis
