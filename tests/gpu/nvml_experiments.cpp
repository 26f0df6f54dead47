// SPDX-License-Identifier: Apache-2.0
//
// What NVML answers, and in which order it counts the devices.

#include <algorithm>
#include <cstdio>
#include <regex>
#include <vector>

#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

void must(const lab& asked, int code, const char* what) {
  if (code != 0) {
    asked.skip(std::string{what} + " answers " + nvml_text_of(code));
  }
}

std::vector<platform::nvml_handle> all_devices(const lab& asked) {
  const platform::nvml_api& nvml = asked.cuda.nvml;
  must(asked, nvml.init(), "nvmlInit");
  unsigned int count = 0;
  must(asked, nvml.device_count(&count), "nvmlDeviceGetCount");
  std::vector<platform::nvml_handle> handles(count);
  for (unsigned int i = 0; i < count; ++i) {
    must(asked, nvml.device_handle(i, &handles[i]), "nvmlDeviceGetHandleByIndex");
  }
  if (handles.empty()) {
    asked.skip("NVML counts no device");
  }
  return handles;
}

platform::nvml_pci_info pci(const lab& asked, platform::nvml_handle device) {
  platform::nvml_pci_info info{};
  must(asked, asked.cuda.nvml.pci_info(device, &info), "nvmlDeviceGetPciInfo");
  return info;
}

unsigned long long place(const platform::nvml_pci_info& info) {
  return (static_cast<unsigned long long>(info.domain) << 32U) | (info.bus << 16U) | info.device;
}

std::string name_of(const lab& asked, platform::nvml_handle device) {
  char name[platform::nvml_name_bytes] = "";
  if (asked.cuda.nvml.name == nullptr) {
    return "(no nvmlDeviceGetName)";
  }
  const int code = asked.cuda.nvml.name(device, name, sizeof name);
  return code == 0 ? name : nvml_text_of(code);
}

void devices(const lab& asked) {
  const auto handles = all_devices(asked);
  asked.saw(std::to_string(handles.size()));
  for (platform::nvml_handle each : handles) {
    char uuid[platform::nvml_uuid_bytes] = "";
    const int code = asked.cuda.nvml.uuid(each, uuid, sizeof uuid);
    asked.saw(std::string{pci(asked, each).bus_id} + " " + name_of(asked, each) + " " +
              (code == 0 ? uuid : nvml_text_of(code)));
  }
}

void pci_order(const lab& asked) {
  std::vector<unsigned long long> places;
  for (platform::nvml_handle each : all_devices(asked)) {
    places.push_back(place(pci(asked, each)));
  }
  asked.saw(std::is_sorted(places.begin(), places.end()) ? "ascending" : "not ascending");
}

// Told, not claimed: CUDA's order is FASTEST_FIRST unless CUDA_DEVICE_ORDER says otherwise.
void cuda_order(const lab& asked) {
  const auto handles = all_devices(asked);
  const platform::driver_api& driver = asked.cuda.driver;
  asked.must(driver.init(0), "cuInit");
  int count = 0;
  asked.must(driver.device_get_count(&count), "cuDeviceGetCount");
  for (int device = 0; device < count; ++device) {
    char text[64] = "";
    asked.must(driver.device_get_pci_bus_id(text, sizeof text, device), "cuDeviceGetPCIBusId");
    unsigned int domain = 0;
    unsigned int bus = 0;
    unsigned int slot = 0;
    std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot);
    const auto found = std::find_if(handles.begin(), handles.end(), [&](auto each) {
      const platform::nvml_pci_info info = pci(asked, each);
      return info.domain == domain && info.bus == bus && info.device == slot;
    });
    const bool is_known = found != handles.end();
    asked.saw("CUDA " + std::to_string(device) + " is NVML " +
              (is_known ? std::to_string(found - handles.begin()) : "unknown"));
  }
}

void affinity(const lab& asked) {
  constexpr unsigned int words = 16;
  if (asked.cuda.nvml.memory_affinity == nullptr) {
    asked.skip("NVML has no nvmlDeviceGetMemoryAffinity");
  }
  for (platform::nvml_handle each : all_devices(asked)) {
    unsigned long nodes[words] = {};
    const int code = asked.cuda.nvml.memory_affinity(each, words, nodes, platform::nvml_scope_node);
    std::string text = std::string{pci(asked, each).bus_id} + ":";
    if (code != 0) {
      text += " " + nvml_text_of(code);
    }
    for (unsigned int i = 0; code == 0 && i < words; ++i) {
      char word[40];
      std::snprintf(word, sizeof word, " [%u]=%lx", i, nodes[i]);
      text += nodes[i] != 0 ? word : "";
    }
    asked.saw(text);
  }
}

void writes_every_word(const lab& asked) {
  constexpr unsigned int words = 16;
  constexpr unsigned long mark = 0xA5A5A5A5A5A5A5A5UL;
  if (asked.cuda.nvml.memory_affinity == nullptr) {
    asked.skip("NVML has no nvmlDeviceGetMemoryAffinity");
  }
  unsigned long nodes[words + 1];
  std::fill(std::begin(nodes), std::end(nodes), mark);
  must(asked, asked.cuda.nvml.memory_affinity(all_devices(asked)[0], words, nodes, 0),
       "nvmlDeviceGetMemoryAffinity");
  const auto unwritten = std::count(nodes, nodes + words, mark);
  asked.saw(unwritten == 0 ? "every word" : std::to_string(unwritten) + " words unwritten");
  asked.saw(nodes[words] == mark ? "no more" : "MORE");
}

void address_format(const lab& asked) {
  static const std::regex usual{"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-7]"};
  static const std::regex legacy{"[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-7]"};
  const platform::nvml_pci_info info = pci(asked, all_devices(asked)[0]);
  asked.saw(std::regex_match(info.bus_id, usual) ? "DDDDDDDD:BB:DD.F, upper case" : info.bus_id);
  asked.saw(std::regex_match(info.bus_id_legacy, legacy) ? "DDDD:BB:DD.F, upper case"
                                                         : info.bus_id_legacy);
}

void wakes_driver(const lab& asked) {
  all_devices(asked);
  int count = 0;
  asked.saw(asked.cuda.driver.device_get_count(&count));
}

void counts_references(const lab& asked) {
  const platform::nvml_api& nvml = asked.cuda.nvml;
  must(asked, nvml.init(), "nvmlInit");
  must(asked, nvml.init(), "nvmlInit");
  unsigned int count = 0;
  asked.saw(nvml_text_of(nvml.shutdown()));
  asked.saw("count " + nvml_text_of(nvml.device_count(&count)));
  asked.saw(nvml_text_of(nvml.shutdown()));
  asked.saw("count " + nvml_text_of(nvml.device_count(&count)));
  asked.saw(nvml_text_of(nvml.shutdown()));
}

void add(experiments& list, const char* name, const char* question, const std::string& expected,
         void (*run)(const lab&), unsigned int needs = need_nvml) {
  list.push_back({name, question, expected, needs, run});
}

}  // namespace

experiments nvml_experiments() {
  experiments list;
  add(list, "nvml.devices", "how many devices, and their addresses, names and ids", "", devices);
  add(list, "nvml.cuda_order", "which of NVML's devices is which of CUDA's", "", cuda_order,
      need_nvml | need_driver);
  add(list, "nvml.affinity", "the nodes of each device's memory affinity, words that are not 0", "",
      affinity);
  add(list, "nvml.pci_order", "the PCI addresses in NVML's order", "ascending", pci_order);
  add(list, "nvml.address_format", "how a PCI address is printed, and the older one",
      "DDDDDDDD:BB:DD.F, upper case, DDDD:BB:DD.F, upper case", address_format);
  add(list, "nvml.every_word", "which words of a mask are written", "every word, no more",
      writes_every_word);
  add(list, "nvml.wakes_driver", "cuDeviceGetCount after NVML's, without cuInit", text_of(3),
      wakes_driver, need_nvml | need_driver);
  add(list, "nvml.uninitialized", "nvmlDeviceGetCount before nvmlInit", nvml_text_of(1),
      [](const lab& asked) {
        unsigned int count = 0;
        asked.saw(nvml_text_of(asked.cuda.nvml.device_count(&count)));
      });
  add(list, "nvml.references", "initialised twice, shut down, counted, shut down, counted, shut",
      "0, count 0, 0, count 1 uninitialized, 1 uninitialized", counts_references);
  add(list, "nvml.index_999", "the handle of index 999", nvml_text_of(2), [](const lab& asked) {
    all_devices(asked);
    platform::nvml_handle device = nullptr;
    asked.saw(nvml_text_of(asked.cuda.nvml.device_handle(999, &device)));
  });
  add(list, "nvml.null_handle", "the address of a null handle", nvml_text_of(2),
      [](const lab& asked) {
        all_devices(asked);
        platform::nvml_pci_info info{};
        asked.saw(nvml_text_of(asked.cuda.nvml.pci_info(nullptr, &info)));
      });
  add(list, "nvml.small_room", "the id into 4 bytes", nvml_text_of(7), [](const lab& asked) {
    char text[64] = "";
    asked.saw(nvml_text_of(asked.cuda.nvml.uuid(all_devices(asked)[0], text, 4)));
  });
  add(list, "nvml.unknown_scope", "the memory affinity in a scope that there is not",
      nvml_text_of(2), [](const lab& asked) {
        unsigned long nodes[16] = {};
        if (asked.cuda.nvml.memory_affinity == nullptr) {
          asked.skip("NVML has no nvmlDeviceGetMemoryAffinity");
        }
        asked.saw(
            nvml_text_of(asked.cuda.nvml.memory_affinity(all_devices(asked)[0], 16, nodes, 9)));
      });
  return list;
}

}  // namespace numapool::gpu_probe
