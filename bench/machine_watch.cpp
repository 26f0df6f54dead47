// SPDX-License-Identifier: Apache-2.0
#include "machine_watch.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include <boost/system/error_code.hpp>

#include <numapool/topology.hpp>

namespace numapool::bench {
namespace {

constexpr double foreign_share_calm = 0.1;

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line.empty() ? "unknown" : line;
}

// "model name	: AMD EPYC" -> "AMD EPYC"
std::string value_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) {
      return line.substr(std::min(line.find_first_not_of(" \t", colon + 1), line.size()));
    }
  }
  return "unknown";
}

std::string describe_nodes() {
  boost::system::error_code error;
  const auto nodes = topology::system(error);
  if (nodes == nullptr) {
    return "unknown: " + error.message();
  }
  std::string text = std::to_string(nodes->node_count());
  for (const node_info& node : nodes->nodes()) {
    text += "; " + std::to_string(node.id.value()) + " has CPUs " +
            (node.usable_cpus.empty() ? "none" : node.usable_cpus.to_list());
  }
  return text;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double own_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// The first line of /proc/stat: user nice system idle iowait irq softirq steal; 0 when it cannot be
// read.
double busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  std::array<double, 8> ticks{};
  file >> word;
  for (double& count : ticks) {
    file >> count;
  }
  constexpr std::size_t idle = 3;
  constexpr std::size_t iowait = 4;
  double busy = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    busy += i == idle || i == iowait ? 0 : ticks[i];
  }
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

machine_facts describe_machine() {
  utsname kernel{};
  ::uname(&kernel);
  return {{"cpu", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " x " +
                      value_in("/proc/cpuinfo", "model name")},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine},
          {"huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
          {"nodes", describe_nodes()},
          {"memory", value_in("/proc/meminfo", "MemTotal") + ", free " +
                         value_in("/proc/meminfo", "MemFree")},
          {"load", first_line("/proc/loadavg")}};
}

std::optional<std::uint64_t> reported_kib() {
  std::uint64_t count = 0;
  std::ifstream file("/sys/module/page_reporting/parameters/reported_kib");
  return file >> count ? std::optional(count) : std::nullopt;
}

machine_watch::machine_watch()
    : begun_(std::chrono::steady_clock::now()),
      busy_seconds_(busy_seconds()),
      own_seconds_(own_seconds()),
      reported_kib_(reported_kib()) {}

machine_watch::finding machine_watch::look() const {
  finding found;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  found.seconds = passed.count();
  const double foreign = busy_seconds() - busy_seconds_ - (own_seconds() - own_seconds_);
  const double all = passed.count() * static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  found.foreign_share = all > 0 ? std::clamp(foreign / all, 0.0, 1.0) : 0;
  found.reported_kib = reported_kib().value_or(0) - reported_kib_.value_or(0);
  return found;
}

void wait_for_calm(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    const machine_watch watch;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (watch.look().foreign_share < foreign_share_calm) {
      return;
    }
  }
}

}  // namespace numapool::bench
