// SPDX-License-Identifier: Apache-2.0

// What hangs from the same PCI root. /sys/bus/pci/devices has links into the tree below
// /sys/devices, whose folders are walked instead, since a recorded machine may hold no links.

#include "device/neighbourhood.hpp"

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
      const auto kind = device::read_attribute(files_, device::path_in(folder, "class"));
      if (kind && kind->starts_with("0x02")) {
        add_interfaces(device::path_in(folder, "net"), found);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  /// Each is a folder of its own; a file beside them is no interface.
  void add_interfaces(const std::string& folder, std::vector<std::string>& found) const {
    std::vector<std::string> names;
    std::vector<std::string> ignored;
    static_cast<void>(files_.list_directory(folder, names));
    for (const std::string& name : names) {
      if (!files_.list_directory(device::path_in(folder, name), ignored)) {
        found.push_back(name);
      }
    }
  }

  void walk(const std::string& folder, int depth) {
    constexpr int deepest = 32;  // switches below switches; a loop of links would go on for ever
    std::vector<std::string> names;
    if (depth > deepest || files_.list_directory(folder, names)) {
      return;
    }
    for (const std::string& name : names) {
      const bool is_function = device::address_of_name(name).has_value();
      if (is_function) {
        functions_.push_back(device::path_in(folder, name));
      }
      if (is_function || is_root_name(name)) {
        walk(device::path_in(folder, name), depth + 1);
      }
    }
  }

  const platform::files& files_;
  std::vector<std::string> functions_;
};

}  // namespace

pci_neighbourhood device::neighbours_on(const platform::files& files, const pci_address& address) {
  const std::string devices = "/sys/devices";
  std::vector<std::string> roots;
  static_cast<void>(files.list_directory(devices, roots));
  for (const std::string& root : roots) {
    if (!is_root_name(root)) {
      continue;
    }
    const root_tree tree(files, path_in(devices, root));
    if (tree.contains(address)) {
      return {root, tree.network_interfaces()};
    }
  }
  return {};
}

pci_neighbourhood neighbourhood_of(const pci_address& address, const topology_options& options) {
  return device::neighbours_on(*platform::files_below(options.root), address);
}

}  // namespace numapool
