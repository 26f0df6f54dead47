// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVML, nvidia-smi and an initialised CUDA, each as a test says.

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <boost/system/error_code.hpp>

#include "base/failures.hpp"
#include "platform/nvml.hpp"
#include "platform/programs.hpp"
#include "platform/registrar.hpp"

namespace numapool::tests {

class fake_nvml final : public platform::nvml {
 public:
  boost::system::error_code devices(std::vector<platform::nvml_device>& out) noexcept override {
    ++calls;
    if (!error) {
      out = listed;
    }
    return error;
  }
  std::vector<platform::nvml_device> listed;
  boost::system::error_code error;
  int calls = 0;
};

/// As fake_nvml where there is no library.
inline boost::system::error_code no_library() {
  return make_error_code(boost::system::errc::not_supported);
}

class fake_programs final : public platform::programs {
 public:
  boost::system::error_code run(const std::vector<std::string>& argv,
                                const platform::program_limits& limits,
                                platform::program_answer& out) noexcept override {
    runs.push_back(argv);
    last_limit = limits.time;
    if (!error) {
      out = answer;
    }
    return error;
  }
  void say(std::string text, int exit_status = 0) {
    error.clear();
    answer = {};
    answer.output = std::move(text);
    answer.exit_status = exit_status;
  }
  void be_missing() { error = base::system_error(ENOENT); }
  void hang() {
    error.clear();
    answer = {};
    answer.is_timed_out = true;
  }

  std::vector<std::vector<std::string>> runs;
  std::chrono::milliseconds last_limit{0};
  boost::system::error_code error = base::system_error(ENOENT);
  platform::program_answer answer;
};

/// Uninitialised until it has devices. Counts what would initialise CUDA.
class fake_cuda_view final : public platform::registrar {
 public:
  platform::registrar_status probe() noexcept override {
    ++initialisations;
    return {};
  }
  boost::system::error_code pci_address(int ordinal, std::string& out) noexcept override {
    ++initialisations;
    const auto index = static_cast<std::size_t>(ordinal);
    if (ordinal < 0 || index >= when_initialised.size()) {
      return make_error_code(boost::system::errc::no_such_device);
    }
    out = when_initialised[index];
    return {};
  }
  boost::system::error_code host_node(int, int&) noexcept override {
    ++initialisations;
    return no_library();
  }
  boost::system::error_code active_devices(std::vector<int>&) noexcept override {
    ++initialisations;
    return no_library();
  }
  boost::system::error_code initialized_devices(
      std::vector<platform::initialized_device>& out) noexcept override {
    if (devices.empty()) {
      return no_library();
    }
    out = devices;
    return {};
  }
  boost::system::error_code register_range(int, void*, std::size_t, void**) noexcept override {
    ++initialisations;
    return no_library();
  }
  platform::unregister_result unregister_range(int, void*) noexcept override { return {}; }

  std::vector<platform::initialized_device> devices;
  std::vector<std::string> when_initialised;
  int initialisations = 0;
};

}  // namespace numapool::tests
