// SPDX-License-Identifier: Apache-2.0
#pragma once

// The GPUs of a machine as plain values, and their two renderings, which read nothing but their
// argument. Threads: values and free functions; safe.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <numapool/device.hpp>
#include <numapool/topology.hpp>

namespace numapool::cli {

struct device_facts {
  host_device device;
  device_location where;  // ordinal: as this process sees it; of a recorded machine, in PCI order
  std::string cpus;       // of the node; "" when it is unknown
  std::string slice;
  std::optional<node_id> memory_node;  // the node that is this GPU's own memory
  pci_neighbourhood neighbours;
};

struct devices_facts {
  std::vector<device_facts> devices;    // by PCI address
  std::vector<visible_device> visible;  // what this process sees, by ordinal; none of a recording
  bool is_this_machine = true;
};

/// Of this machine, or of the one recorded at `options.root`.
[[nodiscard]] devices_facts read_devices(const topology_options& options);

[[nodiscard]] nlohmann::ordered_json devices_json(const devices_facts& machine);
[[nodiscard]] std::string devices_text(const devices_facts& machine);

}  // namespace numapool::cli
