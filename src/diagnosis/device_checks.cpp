// SPDX-License-Identifier: Apache-2.0

// The GPUs and their nodes.

#include <string>

#include "device/device_chain.hpp"
#include "diagnosis/checks.hpp"

namespace numapool::diagnosis {
namespace {

std::string value_of(const host_device& device, const device_location& where) {
  const std::string node =
      where.node.is_unknown() ? "node unknown" : "node " + std::to_string(where.node.value());
  return to_string(device.address) + ": " + node + " (" + std::string(name(where.source)) + ")";
}

check device_check(const topology& nodes, const host_device& device, const device_location& where) {
  check found{"device", check_status::ok, value_of(device, where), "its node is known", ""};
  const node_info* const reported = nodes.find(where.reported_node);
  if (where.source == node_source::heuristic || where.node.is_unknown()) {
    found.status = check_status::warn;
    found.meaning = "nothing says where it is: " + where.reason;
    found.fix = "name the node in each request (--node N)";
  } else if (reported != nullptr && !reported->cpus.empty()) {
    found.status = check_status::warn;
    found.meaning = "it is on node " + std::to_string(reported->id.value()) +
                    ", none of whose CPUs this process may use";
    found.fix = "add CPUs of " + reported->cpus.to_list() + " to the cpuset or the CPU affinity";
  } else if (where.source == node_source::nvidia_smi) {
    found.status = check_status::info;
    found.meaning = "nvidia-smi alone knows it, which can take seconds";
  }
  return found;
}

void check_visible(examination& job, const device::visible_list& list) {
  for (std::size_t ordinal = 0; ordinal < list.devices.size(); ++ordinal) {
    const visible_device& device = list.devices[ordinal];
    if (!device.address) {
      job.add({"visible_device", check_status::warn, "ordinal " + std::to_string(ordinal),
               "which GPU it is, is not known: " + device.reason,
               "export CUDA_DEVICE_ORDER=PCI_BUS_ID, and have NVML at hand for ids"});
    }
  }
  if (!list.end.empty()) {
    job.add({"visible_device", check_status::warn, std::to_string(list.devices.size()) + " visible",
             list.end, "correct CUDA_VISIBLE_DEVICES"});
  }
}

}  // namespace

void check_devices(examination& job) {
  const device::device_sources sources = device::sources_of(job.machine(), job.nodes());
  const auto devices = device::host_devices_of(sources);
  if (devices.empty()) {
    job.add(
        {"device", check_status::info, "none", "neither sysfs nor NVML lists an NVIDIA GPU", ""});
  }
  for (const host_device& device : devices) {
    job.add(device_check(job.nodes(), device, device::locate_address(sources, device.address, {})));
  }
  if (!devices.empty()) {
    check_visible(job, device::visible_list_of(sources));
  }
}

}  // namespace numapool::diagnosis
