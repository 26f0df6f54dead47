// SPDX-License-Identifier: Apache-2.0
#include "topology/online_cpus.hpp"

#include <string>

#include "base/text.hpp"

namespace numapool {
namespace {

/// No string of the namespace: a destructor that runs after main() may ask for a topology too.
constexpr const char* cpu_folder = "/sys/devices/system/cpu";

/// A CPU without the file cannot be taken offline: it is online.
cpu_set from_cpu_folders(const kernel_files& reader) {
  cpu_set online;
  for (std::uint32_t cpu : reader.numbers_in(cpu_folder, "cpu")) {
    const auto text =
        reader.text(std::string(cpu_folder) + "/cpu" + std::to_string(cpu) + "/online");
    if (!text || base::trimmed(*text) != "0") {
      online.insert(cpu_id(cpu));
    }
  }
  return online;
}

/// The lines "cpu3 ..." are those of online CPUs; "cpu ..." is their sum.
cpu_set from_statistics(const kernel_files& reader) {
  cpu_set online;
  const std::string text = reader.text("/proc/stat").value_or("");
  for (std::string_view line : base::lines_of(text)) {
    const auto cpu = base::number_after("cpu", line.substr(0, line.find(' ')));
    if (cpu && *cpu <= cpu_set::id_max) {
      online.insert(cpu_id(*cpu));
    }
  }
  return online;
}

}  // namespace

std::optional<cpu_set> read_online_cpus(const kernel_files& reader) {
  std::optional<cpu_set> online = reader.cpu_list(std::string(cpu_folder) + "/online");
  if (online && !online->empty()) {
    return online;
  }
  for (auto* read : {&from_cpu_folders, &from_statistics}) {
    cpu_set found = read(reader);
    if (!found.empty()) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace numapool
