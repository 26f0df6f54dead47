// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands behind the fake NVML libraries. fake_nvml_control.h tells the rules. Threads:
// everything but entering a call is done while a scoped_call is alive, which holds the one lock.

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fake_nvml {

enum status : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
};

using id_list = std::vector<unsigned long>;

struct device {
  std::string address;  // as nvmlDeviceGetPciInfo_v3 prints it
  std::string uuid;
  std::string name = "NVIDIA Fake";
  std::optional<id_list> nodes;  // none: not supported
  std::optional<id_list> cpus;
  bool has_mig = false;
  std::deque<device> mig;  // their uuid alone is used; a deque keeps their addresses
  int lost = success;
};

struct failure {
  std::string name;
  bool each;
  unsigned long left;
  int code;
};

struct state {
  std::mutex mutex;  // guards everything below
  std::deque<device> devices;
  std::map<std::string, unsigned long> counts;
  std::vector<failure> failures;
  unsigned long references = 0;
  std::string theft;  // the function in whose next call a reference is stolen
  std::string report_path;
};

// Made on first use, with the environment read; never destroyed.
state& the_state();
void reset(state& shared);  // with the lock held
void set_devices(state& shared, const std::string& text);
void steal_reference(state& shared);
// The device or MIG device behind a handle; null if it is neither.
device* find_device(state& shared, void* handle);

// One call: counts it, and holds the lock for its scope.
class scoped_call {
 public:
  explicit scoped_call(const char* name);
  [[nodiscard]] int refused() const { return refused_; }  // not success: answer this, do nothing

 private:
  std::unique_lock<std::mutex> lock_;
  int refused_ = success;
};

}  // namespace fake_nvml
