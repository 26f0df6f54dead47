// SPDX-License-Identifier: Apache-2.0
//
// Versions, devices, their addresses and nodes, what odd arguments answer, and how long registering
// takes by size.

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

int device_count(const lab& asked) {
  int count = 0;
  if (asked.cuda.has_runtime()) {
    asked.must(asked.cuda.runtime.get_device_count(&count), "cudaGetDeviceCount");
  } else {
    asked.must(asked.cuda.driver.init(0), "cuInit");
    asked.must(asked.cuda.driver.device_get_count(&count), "cuDeviceGetCount");
  }
  return count;
}

int address_of(const lab& asked, int device, char* text, int size) {
  return asked.cuda.has_runtime() ? asked.cuda.runtime.device_get_pci_bus_id(text, size, device)
                                  : asked.cuda.driver.device_get_pci_bus_id(text, size, device);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

std::string address(const lab& asked, int device) {
  char text[64] = "";
  asked.must(address_of(asked, device, text, sizeof text), "DeviceGetPCIBusId");
  return text;
}

void versions(const lab& asked) {
  int version = 0;
  if (asked.cuda.has_runtime()) {
    const int code = asked.cuda.runtime.runtime_get_version(&version);
    asked.saw("runtime " + (code == 0 ? std::to_string(version) : text_of(code)));
    const int driver_code = asked.cuda.runtime.driver_get_version(&version);
    asked.saw("driver by the runtime " +
              (driver_code == 0 ? std::to_string(version) : text_of(driver_code)));
  }
  if (asked.cuda.has_driver()) {
    const int code = asked.cuda.driver.driver_get_version(&version);
    asked.saw("driver " + (code == 0 ? std::to_string(version) : text_of(code)));
  }
}

void kernel(const lab& asked) {
  utsname name{};
  ::uname(&name);
  asked.saw(std::string{name.sysname} + " " + name.release + " " + name.machine);
  const std::string module = first_line("/proc/driver/nvidia/version");
  asked.saw(module.empty() ? "no /proc/driver/nvidia/version" : module);
}

void devices(const lab& asked) {
  const int count = device_count(asked);
  asked.saw(std::to_string(count));
  for (int device = 0; device < count; ++device) {
    asked.saw(address(asked, device));
  }
}

// Compared only where both say something: -1 is "not known" for both.
void host_nodes(const lab& asked) {
  const int count = device_count(asked);
  bool is_compared = false;
  bool agrees = true;
  for (int device = 0; device < count; ++device) {
    int node = -1;
    constexpr int attribute = platform::cuda_attribute_host_numa_id;
    const int code = asked.cuda.has_runtime()
                         ? asked.cuda.runtime.device_get_attribute(&node, attribute, device)
                         : asked.cuda.driver.device_get_attribute(&node, attribute, device);
    const std::string where = lower(address(asked, device));
    const std::string text = first_line("/sys/bus/pci/devices/" + where + "/numa_node");
    asked.note(where + ": attribute " + (code == 0 ? std::to_string(node) : text_of(code)) +
               ", sysfs " + (text.empty() ? "none" : text));
    if (code == 0 && node >= 0 && !text.empty() && text != "-1") {
      is_compared = true;
      agrees = agrees && std::to_string(node) == text;
    }
  }
  if (!is_compared) {
    asked.skip("no device has a node from both");
  }
  asked.saw(agrees ? "agree" : "disagree");
}

void address_format(const lab& asked) {
  static const std::regex usual{"[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-7]"};
  const std::string text = address(asked, 0);
  asked.note(text);
  asked.saw(std::regex_match(text, usual) ? "DDDD:BB:DD.F, upper case" : text);
}

void host_pointer_attribute(const lab& asked) {
  constexpr int can_use_host_pointer = 91;
  int value = -1;
  const int code = asked.cuda.has_runtime()
                       ? asked.cuda.runtime.device_get_attribute(&value, can_use_host_pointer, 0)
                       : asked.cuda.driver.device_get_attribute(&value, can_use_host_pointer, 0);
  asked.saw(code);
  asked.saw("value " + std::to_string(value));
}

void add(experiments& list, const char* name, const char* question, const std::string& expected,
         unsigned int needs, void (*run)(const lab&)) {
  list.push_back({name, question, expected, needs, run});
}

void add_arguments(experiments& list) {
  add(list, "argument.small_room", "the PCI address into 5 bytes", text_of(1), need_either,
      [](const lab& asked) {
        device_count(asked);
        char text[64] = "";
        asked.saw(address_of(asked, 0, text, 5));
      });
  add(list, "argument.address_of_999", "the PCI address of device 999", text_of(101), need_either,
      [](const lab& asked) {
        device_count(asked);
        char text[64] = "";
        asked.saw(address_of(asked, 999, text, sizeof text));
      });
  add(list, "argument.set_999", "cudaSetDevice(999)", text_of(101), need_runtime,
      [](const lab& asked) { asked.saw(asked.cuda.runtime.set_device(999)); });
  add(list, "argument.set_minus_1", "cudaSetDevice(-1)", text_of(101), need_runtime,
      [](const lab& asked) { asked.saw(asked.cuda.runtime.set_device(-1)); });
  add(list, "argument.attribute_of_999", "an attribute of device 999", text_of(101), need_runtime,
      [](const lab& asked) {
        int value = 0;
        asked.saw(asked.cuda.runtime.device_get_attribute(&value, 134, 999));
      });
  add(list, "argument.attribute_9999", "attribute 9999", text_of(1), need_runtime,
      [](const lab& asked) {
        int value = 0;
        asked.saw(asked.cuda.runtime.device_get_attribute(&value, 9999, 0));
      });
  add(list, "argument.init_flags", "cuInit with a flag", text_of(1), need_driver,
      [](const lab& asked) { asked.saw(asked.cuda.driver.init(1)); });
  add(list, "argument.driver_999", "cuDeviceGet of ordinal 999", text_of(101), need_driver,
      [](const lab& asked) {
        asked.must(asked.cuda.driver.init(0), "cuInit");
        int device = 0;
        asked.saw(asked.cuda.driver.device_get(&device, 999));
      });
  add(list, "argument.push_null", "cuCtxPushCurrent of null", text_of(201), need_driver,
      [](const lab& asked) {
        asked.must(asked.cuda.driver.init(0), "cuInit");
        asked.saw(asked.cuda.driver.context_push(nullptr));
      });
  add(list, "argument.pop_empty", "cuCtxPopCurrent of an empty stack", text_of(201), need_driver,
      [](const lab& asked) {
        asked.must(asked.cuda.driver.init(0), "cuInit");
        platform::driver_context popped = nullptr;
        asked.saw(asked.cuda.driver.context_pop(&popped));
      });
}

// ---- Sizes

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::size_t available_bytes() {
  std::ifstream file{"/proc/meminfo"};
  std::string key;
  std::size_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") {
      return kib << 10;
    }
    file.ignore(80, '\n');
  }
  return 0;
}

void register_size(const lab& asked, std::size_t bytes, bool with_huge_pages) {
  if (bytes > available_bytes() / 4) {
    asked.skip("that is more than a quarter of the memory available");
  }
  constexpr std::size_t huge = 2 << 20;
  void* mapped = ::mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    asked.skip("there is no memory for it");
  }
  char* begin = static_cast<char*>(mapped);
  begin += (huge - reinterpret_cast<std::size_t>(begin) % huge) % huge;
  ::madvise(begin, bytes, with_huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    begin[at] = 1;
  }
  const door cuda = any_door(asked);
  const host_pages first{asked, 1};
  asked.must(cuda.enroll(first.page(0), first.size()), "a first registration");
  const auto registering = std::chrono::steady_clock::now();
  const int code = cuda.enroll(begin, bytes);
  const double taken = seconds_since(registering);
  asked.saw(code);
  if (code != 0) {
    return;
  }
  const auto unregistering = std::chrono::steady_clock::now();
  const int removed = cuda.remove(begin);
  const double removing = seconds_since(unregistering);
  asked.saw(removed);
  const double gib = static_cast<double>(bytes) / (1 << 30);
  char text[160];
  std::snprintf(text, sizeof text, "registering %.6f s, %.3f s/GiB; unregistering %.6f s, %.3f",
                taken, taken / gib, removing, removing / gib);
  asked.note(text);
}

}  // namespace

experiments machine_experiments() {
  experiments list;
  add(list, "machine.versions", "the versions of runtime and driver", "", 0, versions);
  add(list, "machine.kernel", "the kernel and its module", "", 0, kernel);
  add(list, "machine.devices", "how many devices, and their addresses in CUDA's order", "",
      need_either, devices);
  add(list, "machine.address_format", "how a PCI address is printed", "DDDD:BB:DD.F, upper case",
      need_either, address_format);
  add(list, "machine.host_node", "attribute 134 of each device, beside numa_node in sysfs", "agree",
      need_either, host_nodes);
  add(list, "machine.host_pointer", "attribute 91: a device can use the host's pointer",
      "0, value 1", need_either, host_pointer_attribute);
  add_arguments(list);
  return list;
}

experiments size_experiments(options_for_sizes options) {
  experiments list;
  struct size_case {
    const char* name;
    std::size_t mib;
    bool with_huge_pages;
  };
  constexpr size_case sizes[] = {{"1MiB", 1, false},        {"64MiB", 64, false},
                                 {"1GiB", 1024, false},     {"1GiB_huge", 1024, true},
                                 {"4GiB_huge", 4096, true}, {"4GiB", 4096, false}};
  for (const size_case& one : sizes) {
    const std::size_t bytes = one.mib << 20;
    list.push_back({std::string{"size."} + one.name,
                    "registering and unregistering as much in one call, resident before", "0, 0",
                    need_either,
                    [bytes, one, options](const lab& asked) {
                      if (bytes > options.largest_bytes) {
                        asked.skip("larger than --largest");
                      }
                      register_size(asked, bytes, one.with_huge_pages);
                    },
                    true});
  }
  return list;
}

}  // namespace numapool::gpu_probe
