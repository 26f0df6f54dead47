// SPDX-License-Identifier: Apache-2.0

// A fake libnvidia-ml: the functions that numapool and its tests call, by the rules in
// fake_nvml_control.h. FAKE_NVML_OLD leaves out what a library of 2018 lacked, FAKE_NVML_INCOMPLETE
// one function that we cannot do without.

#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "fake_nvml_state.hpp"

namespace {

using fake_nvml::device;
using fake_nvml::scoped_call;
using fake_nvml::state;
using fake_nvml::the_state;

// As the NVML API reference has it, declared apart from numapool's own.
struct pci_info {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

// `work(state)`, for functions that need NVML to be initialised.
template <class Work>
int call(const char* name, Work work) {
  const scoped_call entered{name};
  state& shared = the_state();
  if (entered.refused() != fake_nvml::success) {
    return entered.refused();
  }
  return shared.references == 0 ? int{fake_nvml::uninitialized} : work(shared);
}

// `work(device)`, for functions of a device.
template <class Work>
int device_call(const char* name, void* handle, Work work) {
  return call(name, [&](state& shared) {
    device* which = fake_nvml::find_device(shared, handle);
    return which == nullptr ? int{fake_nvml::invalid_argument} : work(*which);
  });
}

int give_text(const std::string& from, char* text, unsigned int size) {
  if (from.size() >= size) {
    return fake_nvml::insufficient_size;
  }
  std::memcpy(text, from.c_str(), from.size() + 1);
  return fake_nvml::success;
}

int give_mask(const std::optional<fake_nvml::id_list>& ids, unsigned int words,
              unsigned long* mask) {
  if (!ids) {
    return fake_nvml::not_supported;
  }
  constexpr unsigned long word_bits = sizeof(unsigned long) * CHAR_BIT;
  std::memset(mask, 0, words * sizeof *mask);
  for (const unsigned long id : *ids) {
    if (id / word_bits >= words) {
      return fake_nvml::insufficient_size;
    }
    mask[id / word_bits] |= 1UL << (id % word_bits);
  }
  return fake_nvml::success;
}

int initialize(const char* name, bool may_have_no_gpu) {
  const scoped_call entered{name};
  if (entered.refused() != fake_nvml::success) {
    return entered.refused();
  }
  state& shared = the_state();
  if (shared.devices.empty() && !may_have_no_gpu) {
    return fake_nvml::not_found;
  }
  ++shared.references;
  return fake_nvml::success;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are NVML's
extern "C" {

int nvmlInit_v2() {
  return initialize("nvmlInit_v2", false);
}

int nvmlShutdown() {
  return call("nvmlShutdown", [](state& shared) {
    fake_nvml::steal_reference(shared);
    return int{fake_nvml::success};
  });
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  return call("nvmlDeviceGetCount_v2", [&](state& shared) {
    *count = static_cast<unsigned int>(shared.devices.size());
    return int{fake_nvml::success};
  });
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** handle) {
  return call("nvmlDeviceGetHandleByIndex_v2", [&](state& shared) {
    if (index >= shared.devices.size()) {
      return int{fake_nvml::invalid_argument};
    }
    *handle = &shared.devices[index];
    return shared.devices[index].lost;
  });
}

int nvmlDeviceGetPciInfo_v3(void* handle, pci_info* info) {
  return device_call("nvmlDeviceGetPciInfo_v3", handle, [&](device& which) {
    unsigned int function = 0;
    std::sscanf(which.address.c_str(), "%x:%x:%x.%x", &info->domain, &info->bus, &info->device,
                &function);
    std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.%X",
                  info->domain & 0xffffU, info->bus & 0xffU, info->device & 0xffU, function & 7U);
    return give_text(which.address, info->bus_id, sizeof info->bus_id);
  });
}

#ifndef FAKE_NVML_INCOMPLETE
int nvmlDeviceGetUUID(void* handle, char* text, unsigned int size) {
  return device_call("nvmlDeviceGetUUID", handle,
                     [&](device& which) { return give_text(which.uuid, text, size); });
}
#endif

int nvmlDeviceGetName(void* handle, char* text, unsigned int size) {
  return device_call("nvmlDeviceGetName", handle,
                     [&](device& which) { return give_text(which.name, text, size); });
}

int nvmlDeviceGetCpuAffinity(void* handle, unsigned int words, unsigned long* mask) {
  return device_call("nvmlDeviceGetCpuAffinity", handle,
                     [&](device& which) { return give_mask(which.cpus, words, mask); });
}

#ifndef FAKE_NVML_OLD
int nvmlInitWithFlags(unsigned int flags) {
  return initialize("nvmlInitWithFlags", (flags & 1U) != 0);
}

int nvmlDeviceGetMigMode(void* handle, unsigned int* now, unsigned int* later) {
  return device_call("nvmlDeviceGetMigMode", handle, [&](device& which) {
    *now = *later = which.has_mig ? 1 : 0;
    return int{fake_nvml::success};
  });
}

int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned int* count) {
  return device_call("nvmlDeviceGetMaxMigDeviceCount", handle, [&](device& which) {
    *count = static_cast<unsigned int>(which.mig.size() * 2);
    return int{fake_nvml::success};
  });
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned int index, void** mig) {
  return device_call("nvmlDeviceGetMigDeviceHandleByIndex", handle, [&](device& which) {
    if (index % 2 == 0 || index / 2 >= which.mig.size()) {
      return int{fake_nvml::not_found};
    }
    *mig = &which.mig[index / 2];
    return int{fake_nvml::success};
  });
}

int nvmlDeviceGetMemoryAffinity(void* handle, unsigned int words, unsigned long* mask,
                                unsigned int scope) {
  return device_call("nvmlDeviceGetMemoryAffinity", handle, [&](device& which) {
    return scope > 1 ? int{fake_nvml::invalid_argument} : give_mask(which.nodes, words, mask);
  });
}

int nvmlDeviceGetCpuAffinityWithinScope(void* handle, unsigned int words, unsigned long* mask,
                                        unsigned int scope) {
  return device_call("nvmlDeviceGetCpuAffinityWithinScope", handle, [&](device& which) {
    return scope > 1 ? int{fake_nvml::invalid_argument} : give_mask(which.cpus, words, mask);
  });
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
