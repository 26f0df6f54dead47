// SPDX-License-Identifier: Apache-2.0

// What hangs from the same PCI root. /sys/bus/pci/devices has links into the tree below
// /sys/devices, whose folders are walked instead, since a recorded machine may hold no links.

#include <algorithm>
#include <string>
#include <vector>

#include <numapool/device.hpp>

#include "device/pci_functions.hpp"

namespace numapool {
namespace {

/// A root complex ("pci0000:3a"), which can stand below another's function too (Intel's VMD).
bool is_root_name(const std::string& name) {
  return name.starts_with("pci") && name.find(':') != std::string::npos;
}

/// The folders of all functions below one root.
class root_tree {
 public:
  root_tree(const platform::files& files, const std::string& folder) : files_(files) {
    walk(folder, 0);
  }
  [[nodiscard]] bool contains(const pci_address& address) const {
    return std::any_of(functions_.begin(), functions_.end(), [&](const std::string& folder) {
      return device::address_of_name(folder.substr(folder.rfind('/') + 1)) == address;
    });
  }
  [[nodiscard]] std::vector<std::string> network_interfaces() const {
    std::vector<std::string> found;
    for (const std::string& folder : functions_) {
      const auto kind = device::read_attribute(files_, folder + "/class");
      std::vector<std::string> names;
      if (kind && kind->starts_with("0x02") && !files_.list_directory(folder + "/net", names)) {
        found.insert(found.end(), names.begin(), names.end());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  void walk(const std::string& folder, int depth) {
    constexpr int deepest = 32;  // switches below switches; a loop of links would go on for ever
    std::vector<std::string> names;
    if (depth > deepest || files_.list_directory(folder, names)) {
      return;
    }
    for (const std::string& name : names) {
      const bool is_function = device::address_of_name(name).has_value();
      if (is_function) {
        functions_.push_back(folder + "/" + name);
      }
      if (is_function || is_root_name(name)) {
        walk(folder + "/" + name, depth + 1);
      }
    }
  }

  const platform::files& files_;
  std::vector<std::string> functions_;
};

}  // namespace

pci_neighbourhood neighbourhood_of(const pci_address& address, const topology_options& options) {
  const auto files = platform::files_below(options.root);
  const std::string devices = "/sys/devices";
  std::vector<std::string> roots;
  static_cast<void>(files->list_directory(devices, roots));
  for (const std::string& root : roots) {
    if (!is_root_name(root)) {
      continue;
    }
    const root_tree tree(*files, devices + "/" + root);
    if (tree.contains(address)) {
      return {root, tree.network_interfaces()};
    }
  }
  return {};
}

}  // namespace numapool
