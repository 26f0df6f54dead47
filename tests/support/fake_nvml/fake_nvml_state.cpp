// SPDX-License-Identifier: Apache-2.0
#include "fake_nvml_state.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "fake_nvml_control.h"

namespace fake_nvml {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "the fake NVML cannot read '%s'\n", text.c_str());
  std::abort();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{text};
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

unsigned long number(const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    refuse(text);
  }
  return value;
}

id_list ids(const std::string& text) {
  id_list list;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const unsigned long first = number(part.substr(0, dash));
    const unsigned long last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    for (unsigned long id = first; id <= last; ++id) {
      list.push_back(id);
    }
  }
  return list;
}

void read_option(device& made, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? std::string{} : text.substr(equals + 1);
  if (key == "cpus") {
    made.cpus = ids(value);
  } else if (key == "name") {
    made.name = value;
  } else if (key == "lost") {
    made.lost = static_cast<int>(number(value));
  } else if (key == "mig") {
    made.has_mig = true;
    for (const std::string& uuid : split(value, ',')) {
      made.mig.emplace_back().uuid = uuid;
    }
  } else {
    refuse(text);
  }
}

device read_device(const std::string& text) {
  const std::vector<std::string> parts = split(text, ';');
  const std::size_t equals = parts.empty() ? std::string::npos : parts[0].find('=');
  if (equals == std::string::npos) {
    refuse(text);
  }
  device made;
  made.address = parts[0].substr(0, equals);
  const std::string identity = parts[0].substr(equals + 1);
  const std::size_t at = identity.find('@');
  made.uuid = identity.substr(0, at);
  if (at != std::string::npos) {
    made.nodes = ids(identity.substr(at + 1));
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    read_option(made, parts[i]);
  }
  return made;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : value;
}

void report() {
  state& shared = the_state();
  const std::lock_guard lock{shared.mutex};
  std::FILE* file = std::fopen(shared.report_path.c_str(), "w");
  if (file == nullptr) {
    return;
  }
  for (const auto& [name, calls] : shared.counts) {
    std::fprintf(file, "%s=%lu\n", name.c_str(), calls);
  }
  std::fprintf(file, "references=%lu\n", shared.references);
  std::fclose(file);
}

// Whether a failure that was asked for strikes this call.
int strike(state& shared, const std::string& name) {
  for (auto entry = shared.failures.begin(); entry != shared.failures.end(); ++entry) {
    if (entry->name != name || (!entry->each && --entry->left > 0)) {
      continue;
    }
    const int code = entry->code;
    if (!entry->each) {
      shared.failures.erase(entry);
    }
    return code;
  }
  return success;
}

}  // namespace

state& the_state() {
  static state& instance = *[] {
    auto* made = new state;
    reset(*made);
    made->report_path = environment("NUMAPOOL_FAKE_NVML_REPORT");
    if (!made->report_path.empty()) {
      std::atexit(report);
    }
    return made;
  }();
  return instance;
}

void reset(state& shared) {
  shared.counts.clear();
  shared.failures.clear();
  shared.references = 0;
  shared.theft.clear();
  set_devices(shared, environment("NUMAPOOL_FAKE_NVML_DEVICES"));
  for (const std::string& text : split(environment("NUMAPOOL_FAKE_NVML_FAIL"), ',')) {
    const std::vector<std::string> parts = split(text, ':');
    if (parts.size() != 3) {
      refuse(text);
    }
    const unsigned long nth = number(parts[1]);
    shared.failures.push_back({parts[0], nth == 0, nth, static_cast<int>(number(parts[2]))});
  }
}

void set_devices(state& shared, const std::string& text) {
  shared.devices.clear();
  for (const std::string& part : split(text, '|')) {
    shared.devices.push_back(read_device(part));
  }
}

void steal_reference(state& shared) {
  shared.references -= shared.references > 0 ? 1 : 0;
}

device* find_device(state& shared, void* handle) {
  for (device& each : shared.devices) {
    if (&each == handle) {
      return &each;
    }
    for (device& mig : each.mig) {
      if (&mig == handle) {
        return &mig;
      }
    }
  }
  return nullptr;
}

scoped_call::scoped_call(const char* name) : lock_{the_state().mutex} {
  state& shared = the_state();
  ++shared.counts[name];
  if (shared.theft == name) {
    shared.theft.clear();
    steal_reference(shared);
  }
  refused_ = strike(shared, name);
}

}  // namespace fake_nvml

using fake_nvml::the_state;

void fake_nvml_reset(void) {
  const std::lock_guard lock{the_state().mutex};
  fake_nvml::reset(the_state());
}

void fake_nvml_set_devices(const char* devices) {
  const std::lock_guard lock{the_state().mutex};
  fake_nvml::set_devices(the_state(), devices);
}

void fake_nvml_fail_nth(const char* name, unsigned long nth, int code) {
  const std::lock_guard lock{the_state().mutex};
  the_state().failures.push_back({name, nth == 0, nth, code});
}

void fake_nvml_clear_failures(void) {
  const std::lock_guard lock{the_state().mutex};
  the_state().failures.clear();
}

unsigned long fake_nvml_count(const char* name) {
  const std::lock_guard lock{the_state().mutex};
  unsigned long sum = 0;
  for (const auto& [function, calls] : the_state().counts) {
    sum += name == nullptr || function == name ? calls : 0;
  }
  return sum;
}

unsigned long fake_nvml_references(void) {
  const std::lock_guard lock{the_state().mutex};
  return the_state().references;
}

void fake_nvml_steal_reference(void) {
  const std::lock_guard lock{the_state().mutex};
  fake_nvml::steal_reference(the_state());
}

void fake_nvml_steal_reference_in(const char* name) {
  const std::lock_guard lock{the_state().mutex};
  the_state().theft = name;
}
