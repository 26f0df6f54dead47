// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_control.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "fake_cuda_state.hpp"

namespace fake_cuda {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{text};
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::uint64_t number(const std::vector<std::string>& parts, std::size_t index, std::uint64_t otherwise) {
  return index < parts.size() ? std::strtoull(parts[index].c_str(), nullptr, 10) : otherwise;
}

std::vector<std::string> environment_parts(const char* name, char separator) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::vector<std::string>{} : split(text, separator);
}

void add_device(state& shared, const std::string& pci_address, int host_node) {
  auto added = std::make_unique<device>();
  added->pci_address = pci_address;
  added->host_node = host_node;
  added->ordinal = static_cast<int>(shared.devices.size());
  shared.devices.push_back(std::move(added));
}

void add_failure(state& shared, const std::string& name, unsigned long nth, int code) {
  shared.failures.push_back({name == "*" ? "" : name, nth == 0, nth, code});
}

void read_devices(state& shared) {
  const char* text = std::getenv("NUMAPOOL_FAKE_CUDA_DEVICES");
  for (const std::string& one : split(text == nullptr ? "0000:3b:00.0@0,0000:86:00.0@1" : text, ',')) {
    const std::vector<std::string> parts = split(one, '@');
    if (!parts.empty()) {
      add_device(shared, parts[0], parts.size() < 2 ? -1 : std::atoi(parts[1].c_str()));
    }
  }
}

void write_report(const state& shared, std::FILE* out) {
  for (const auto& [name, count] : shared.counts) {
    std::fprintf(out, "count %s %lu\n", name.c_str(), count);
  }
  for (const auto& each : shared.devices) {
    std::fprintf(out, "device %d contexts_made %lu references %lu\n", each->ordinal, each->made, each->references);
  }
  std::fprintf(out, "registered %zu\n", shared.ranges.size());
}

// Runs when the library is finalised, after the exit handlers of everybody who was initialised later.
struct report_at_exit {
  ~report_at_exit() {
    state& shared = the_state();
    const std::lock_guard lock{shared.mutex};
    if (shared.report_path.empty()) {
      return;
    }
    if (std::FILE* out = std::fopen(shared.report_path.c_str(), "w"); out != nullptr) {
      write_report(shared, out);
      std::fclose(out);
    }
  }
} reporter;

const device* device_of(state& shared, int ordinal) {
  return find_device(shared, ordinal);
}

}  // namespace

void read_environment(state& shared) {
  read_devices(shared);
  for (const std::string& one : environment_parts("NUMAPOOL_FAKE_CUDA_FAIL", ',')) {
    const std::vector<std::string> parts = split(one, ':');
    if (parts.size() == 3) {
      add_failure(shared, parts[0], number(parts, 1, 0), static_cast<int>(number(parts, 2, 0)));
    }
  }
  const auto limit = environment_parts("NUMAPOOL_FAKE_CUDA_LIMIT", ':');
  shared.limit_bytes = number(limit, 0, 0);
  shared.limit_code = static_cast<int>(number(limit, 1, invalid_value));
  const auto runtime = environment_parts("NUMAPOOL_FAKE_CUDA_RUNTIME_VERSION", ':');
  const auto driver = environment_parts("NUMAPOOL_FAKE_CUDA_DRIVER_VERSION", ':');
  shared.runtime_version = static_cast<int>(number(runtime, 0, 13000));
  shared.driver_version = static_cast<int>(number(driver, 0, 13000));
  const auto delay = environment_parts("NUMAPOOL_FAKE_CUDA_DELAY", ':');
  shared.ns_per_call = number(delay, 0, 0);
  shared.ps_per_byte = number(delay, 1, 0);
  shared.under_one_lock = number(delay, 2, 0) != 0;
  const char* report = std::getenv("NUMAPOOL_FAKE_CUDA_REPORT");
  shared.report_path = report == nullptr ? "" : report;
}

}  // namespace fake_cuda

using fake_cuda::state;
using fake_cuda::the_state;

namespace {
template <class Work>
auto locked(Work work) {
  state& shared = the_state();
  const std::lock_guard lock{shared.mutex};
  return work(shared);
}
}  // namespace

extern "C" {

void fake_cuda_reset(void) {
  locked([](state& shared) { fake_cuda::reset(shared); });
}

void fake_cuda_set_devices(const struct fake_cuda_device* devices, size_t count) {
  locked([&](state& shared) {
    ++shared.generation;  // no thread keeps a context of a device that is gone
    shared.ranges.clear();
    shared.devices.clear();
    for (size_t i = 0; i < count; ++i) {
      fake_cuda::add_device(shared, devices[i].pci_address, devices[i].host_node);
    }
  });
}

void fake_cuda_set_versions(int runtime_version, int driver_version) {
  locked([&](state& shared) {
    shared.runtime_version = runtime_version;
    shared.driver_version = driver_version;
  });
}

void fake_cuda_fail_nth(const char* name, unsigned long nth, int code) {
  locked([&](state& shared) { fake_cuda::add_failure(shared, name == nullptr ? "" : name, nth, code); });
}

void fake_cuda_clear_failures(void) {
  locked([](state& shared) { shared.failures.clear(); });
}

void fake_cuda_set_limit(size_t size_bytes, int code) {
  locked([&](state& shared) {
    shared.limit_bytes = size_bytes;
    shared.limit_code = code;
  });
}

void fake_cuda_set_delay(uint64_t ns_per_call, uint64_t ps_per_byte, int under_one_lock) {
  locked([&](state& shared) {
    shared.ns_per_call = ns_per_call;
    shared.ps_per_byte = ps_per_byte;
    shared.under_one_lock = under_one_lock != 0;
  });
}

void fake_cuda_hold(const char* name) {
  locked([&](state& shared) { shared.held_name = name; });
}

void fake_cuda_wait_until_held(unsigned long calls) {
  state& shared = the_state();
  std::unique_lock lock{shared.mutex};
  shared.changed.wait(lock, [&] { return shared.held_calls >= calls; });
}

void fake_cuda_release(void) {
  locked([](state& shared) {
    shared.held_name.clear();
    shared.changed.notify_all();
  });
}

void fake_cuda_set_device_pointer_offset(uint64_t offset) {
  locked([&](state& shared) { shared.device_pointer_offset = offset; });
}

void fake_cuda_set_events_late(int late) {
  locked([&](state& shared) { shared.events_are_late = late != 0; });
}

void fake_cuda_complete_events(void) {
  locked([](state& shared) {
    for (auto& entry : shared.events) {
      entry.second->is_complete = true;
    }
    shared.changed.notify_all();
  });
}

void fake_cuda_set_gone(int gone) {
  locked([&](state& shared) { shared.is_gone = gone != 0; });
}

unsigned long fake_cuda_count(const char* name) {
  return locked([&](const state& shared) {
    if (name == nullptr) {
      return shared.fallible_calls;
    }
    const auto found = shared.counts.find(name);
    return found == shared.counts.end() ? 0UL : found->second;
  });
}

size_t fake_cuda_registered_ranges(struct fake_cuda_range* ranges, size_t capacity) {
  return locked([&](const state& shared) {
    size_t filled = 0;
    for (const auto& [begin, range] : shared.ranges) {
      if (filled == capacity) {
        break;
      }
      ranges[filled++] = {std::bit_cast<void*>(range.address),
                          range.size_bytes,
                          std::bit_cast<void*>(begin),
                          std::bit_cast<void*>(range.end),
                          range.flags,
                          range.owner->ordinal,
                          range.pages_not_resident};
    }
    return shared.ranges.size();
  });
}

int fake_cuda_context_active(int device) {
  return fake_cuda_context_references(device) != 0 ? 1 : 0;
}

unsigned long fake_cuda_contexts_made(int device) {
  return locked([&](state& shared) {
    const auto* which = fake_cuda::device_of(shared, device);
    return which == nullptr ? 0UL : which->made;
  });
}

unsigned long fake_cuda_context_references(int device) {
  return locked([&](state& shared) {
    const auto* which = fake_cuda::device_of(shared, device);
    return which == nullptr ? 0UL : which->references;
  });
}

int fake_cuda_initialized(void) {
  return locked([](const state& shared) { return shared.initialized ? 1 : 0; });
}

size_t fake_cuda_thread_context_depth(void) {
  return locked([](state& shared) { return fake_cuda::this_thread(shared).contexts.size(); });
}

int fake_cuda_last_error(void) {
  return locked([](state& shared) { return fake_cuda::this_thread(shared).last_error; });
}

}  // extern "C"
