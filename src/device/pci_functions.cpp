// SPDX-License-Identifier: Apache-2.0
#include "device/pci_functions.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace numapool::device {
namespace {

constexpr const char* functions_folder = "/sys/bus/pci/devices";

/// Controllers with a screen (VGA) and, as all data-centre GPUs are, without one (3D).
bool is_gpu_class(std::string_view text) {
  return text.starts_with("0x0300") || text.starts_with("0x0302");
}

std::vector<std::string> function_names(const platform::files& files) {
  std::vector<std::string> names;
  static_cast<void>(files.list_directory(functions_folder, names));
  return names;
}

}  // namespace

std::string path_in(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

std::optional<pci_address> address_of_name(std::string_view name) {
  boost::system::error_code error;
  const pci_address address = pci_address::parse(name, error);
  return error ? std::nullopt : std::optional<pci_address>(address);
}

std::optional<std::string> read_attribute(const platform::files& files, const std::string& path) {
  std::string text;
  if (files.read_text(path, text)) {
    return std::nullopt;
  }
  return std::string(base::trimmed(text));
}

gpu_functions read_gpu_functions(const platform::files& files) {
  gpu_functions found;
  for (const std::string& name : function_names(files)) {
    const std::optional<pci_address> address = address_of_name(name);
    if (!address) {
      continue;
    }
    found.is_listed = true;
    const std::string folder = path_in(functions_folder, name);
    if (read_attribute(files, folder + "/vendor") == "0x10de" &&
        is_gpu_class(read_attribute(files, folder + "/class").value_or(""))) {
      found.gpus.push_back({*address, read_attribute(files, folder + "/device").value_or("")});
    }
  }
  std::sort(found.gpus.begin(), found.gpus.end(),
            [](const gpu_function& a, const gpu_function& b) { return a.address < b.address; });
  return found;
}

std::optional<std::string> find_pci_folder(const platform::files& files,
                                           const pci_address& address) {
  const std::string usual = std::string(functions_folder) + "/" + to_string(address);
  std::string ignored;
  if (!files.read_text(usual + "/numa_node", ignored)) {
    return usual;
  }
  for (const std::string& name : function_names(files)) {
    if (address_of_name(name) == address) {
      return path_in(functions_folder, name);
    }
  }
  return std::nullopt;
}

}  // namespace numapool::device
