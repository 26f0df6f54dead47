// SPDX-License-Identifier: Apache-2.0

// Saving a machine: read it through an ear on the files, then write down what was heard. What is
// written is what was read, not a second look, and nothing else of the machine leaves it.

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <numapool/error.hpp>
#include <numapool/topology.hpp>

#include "base/failures.hpp"
#include "base/text.hpp"
#include "device/cpu_slices.hpp"
#include "device/device_chain.hpp"
#include "device/neighbourhood.hpp"
#include "platform/platform.hpp"
#include "topology/topology_builder.hpp"

namespace numapool {
namespace {

namespace filesystem = std::filesystem;

/// Passes everything on, and remembers what was read and which of the listed folders were looked
/// into.
class recording_files final : public platform::files {
 public:
  explicit recording_files(const platform::files& machine) : machine_(machine) {}

  platform::error_code read_text(const std::string& path, std::string& text) const override {
    const platform::error_code failed = machine_.read_text(path, text);
    if (!failed) {
      texts_.insert_or_assign(path, text);
    }
    note_parents(path);
    return failed;
  }

  platform::error_code list_directory(const std::string& path,
                                      std::vector<std::string>& names) const override {
    const platform::error_code failed = machine_.list_directory(path, names);
    if (!failed) {
      folders_.insert(path);
      for (const std::string& name : names) {
        listed_.insert(base::join_path(path, name));
      }
    }
    return failed;
  }

  [[nodiscard]] bool is_this_machine() const noexcept override {
    return machine_.is_this_machine();
  }

  [[nodiscard]] const std::map<std::string, std::string>& texts() const { return texts_; }
  [[nodiscard]] const std::set<std::string>& folders() const { return folders_; }

 private:
  /// A listed folder is part of the answer even when no file in it could be read: node7 without a
  /// cpulist.
  void note_parents(const std::string& path) const {
    for (filesystem::path parent = filesystem::path(path).parent_path(); parent.has_relative_path();
         parent = parent.parent_path()) {
      if (listed_.contains(parent.string())) {
        folders_.insert(parent.string());
      }
    }
  }

  const platform::files& machine_;
  mutable std::map<std::string, std::string> texts_;
  mutable std::set<std::string> folders_;
  mutable std::set<std::string> listed_;
};

/// What a reader of the recording will ask about its GPUs.
void hear_devices(const recording_files& ear, const topology& nodes) {
  for (const device::gpu_function& gpu : device::read_gpu_functions(ear).gpus) {
    std::string ignored;
    static_cast<void>(device::find_kernel_node(ear, nodes, gpu.address, ignored));
    static_cast<void>(device::slice_on(ear, nodes, gpu.address));
    static_cast<void>(device::neighbours_on(ear, gpu.address));
  }
}

[[noreturn]] void raise_not_recorded(const std::string& path, std::error_code cause) {
  base::raise(base::make_failure(errc::machine_not_recorded, operation::read_topology,
                                 path + " could not be written: " + cause.message(),
                                 base::system_error(cause.value())));
}

void make_folder(const filesystem::path& folder) {
  std::error_code failed;
  filesystem::create_directories(folder, failed);
  if (failed) {
    raise_not_recorded(folder.string(), failed);
  }
}

void make_empty_folder(const filesystem::path& folder) {
  make_folder(folder);
  std::error_code failed;
  if (!filesystem::is_empty(folder, failed) && !failed) {
    failed = std::make_error_code(std::errc::directory_not_empty);
  }
  if (failed) {
    raise_not_recorded(folder.string(), failed);
  }
}

void write_text(const filesystem::path& path, const std::string& text) {
  make_folder(path.parent_path());
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    raise_not_recorded(path.string(), {errno != 0 ? errno : EIO, std::generic_category()});
  }
}

}  // namespace

void save_machine(const std::string& directory, const topology_options& options) {
  const bool is_live = options.root.empty();
  const auto below_root = platform::files_below(options.root);
  const platform::platform* const live = is_live ? &platform::this_machine() : nullptr;
  const recording_files ear(is_live ? live->files : *below_root);
  const topology nodes = topology_builder::read(ear, is_live ? &live->threads : nullptr);
  hear_devices(ear, nodes);

  make_empty_folder(directory);
  for (const std::string& folder : ear.folders()) {
    make_folder(directory + folder);
  }
  for (const auto& [path, text] : ear.texts()) {
    write_text(directory + path, text);
  }
}

}  // namespace numapool
