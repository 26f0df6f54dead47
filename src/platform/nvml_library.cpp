// SPDX-License-Identifier: Apache-2.0
#include "platform/nvml_library.hpp"

#include <dlfcn.h>
#include <string.h>

#include <array>
#include <bit>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include <numapool/environment.hpp>

#include "platform/nvml_error.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;

constexpr const char* usual_name = "libnvidia-ml.so.1";

// The kernel's own ceilings, so that no machine's mask can be cut.
constexpr std::size_t nodes_max = 1024;
constexpr std::size_t cpus_max = 8192;
constexpr std::size_t word_bits = sizeof(unsigned long) * CHAR_BIT;

// Takes every symbol from `handle`; false when one is missing that we cannot do without.
bool bind_symbols(void* handle, nvml_api& api) {
  bool is_complete = true;
  visit_symbols(api, [&](const char* symbol, auto& function, bool is_needed) {
    void* address = ::dlsym(handle, symbol);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    is_complete = is_complete && (address != nullptr || !is_needed);
  });
  return is_complete;
}

// NVML initialised for this scope. Counts as NVML does: one shutdown for each initialisation.
class session {
 public:
  explicit session(const nvml_api& api) noexcept
      : api_{api},
        status_{api.init_with_flags != nullptr ? api.init_with_flags(nvml_init_no_gpus)
                                               : api.init()} {}
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() {
    if (status_ == nvml_success && !is_ended_) {
      api_.shutdown();
    }
  }

  [[nodiscard]] nvml_status status() const noexcept { return status_; }
  [[nodiscard]] const nvml_api& api() const noexcept { return api_; }

  // Passes an answer through. "Not initialised" means that somebody else has taken our count: what
  // we would give back is then another's.
  nvml_status note(nvml_status answer) noexcept {
    is_ended_ = is_ended_ || answer == nvml_error_uninitialized;
    return answer;
  }
  [[nodiscard]] bool is_ended() const noexcept { return is_ended_; }

 private:
  const nvml_api& api_;
  const nvml_status status_;
  bool is_ended_ = false;
};

template <std::size_t Size>
std::string text_of(const char (&text)[Size]) {
  return {text, ::strnlen(text, Size)};
}

// `ask(text, size)`; empty when it fails.
template <std::size_t Size, class Ask>
std::string ask_text(session& nvml, Ask ask) {
  char text[Size] = {};
  const bool is_answered = nvml.note(ask(text, static_cast<unsigned int>(Size))) == nvml_success;
  return is_answered ? text_of(text) : std::string{};
}

std::string ask_uuid(session& nvml, nvml_handle device) {
  return ask_text<nvml_uuid_bytes>(
      nvml, [&](char* text, unsigned int size) { return nvml.api().uuid(device, text, size); });
}

// `ask(words, mask)`; empty when it fails, and when no bit is set: some machines answer so.
template <class Set, std::size_t Bits, class Ask>
Set ask_mask(session& nvml, Ask ask) {
  std::array<unsigned long, Bits / word_bits> mask{};
  Set set;
  if (nvml.note(ask(static_cast<unsigned int>(mask.size()), mask.data())) != nvml_success) {
    return set;
  }
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (unsigned long bits = mask[word]; bits != 0; bits &= bits - 1) {
      const std::size_t bit = static_cast<std::size_t>(std::countr_zero(bits));
      const auto id = static_cast<std::uint32_t>(word * word_bits + bit);
      set.insert(typename Set::value_type{id});
    }
  }
  return set;
}

node_set ask_memory_nodes(session& nvml, nvml_handle device) {
  if (nvml.api().memory_affinity == nullptr) {
    return {};
  }
  return ask_mask<node_set, nodes_max>(nvml, [&](unsigned int words, unsigned long* mask) {
    return nvml.api().memory_affinity(device, words, mask, nvml_scope_node);
  });
}

cpu_set ask_cpus(session& nvml, nvml_handle device) {
  const nvml_api& api = nvml.api();
  if (api.cpu_affinity_in_scope == nullptr && api.cpu_affinity == nullptr) {
    return {};
  }
  return ask_mask<cpu_set, cpus_max>(nvml, [&](unsigned int words, unsigned long* mask) {
    return api.cpu_affinity_in_scope != nullptr
               ? api.cpu_affinity_in_scope(device, words, mask, nvml_scope_node)
               : api.cpu_affinity(device, words, mask);
  });
}

std::vector<std::string> ask_mig_uuids(session& nvml, nvml_handle device) {
  const nvml_api& api = nvml.api();
  std::vector<std::string> uuids;
  if (api.mig_mode == nullptr || api.mig_count_max == nullptr || api.mig_handle == nullptr) {
    return uuids;
  }
  unsigned int now = 0;
  unsigned int later = 0;  // after the next reset: not what programs find today
  if (nvml.note(api.mig_mode(device, &now, &later)) != nvml_success || now != nvml_mig_enabled) {
    return uuids;
  }
  unsigned int count = 0;
  if (nvml.note(api.mig_count_max(device, &count)) != nvml_success) {
    return uuids;
  }
  for (unsigned int index = 0; index < count; ++index) {
    nvml_handle mig = nullptr;
    if (nvml.note(api.mig_handle(device, index, &mig)) != nvml_success) {
      continue;  // the indexes have gaps
    }
    if (std::string uuid = ask_uuid(nvml, mig); !uuid.empty()) {
      uuids.push_back(std::move(uuid));
    }
  }
  return uuids;
}

// A GPU that is lost, or that this user may not open, keeps its place in NVML's order.
nvml_device ask_device(session& nvml, unsigned int index) {
  const nvml_api& api = nvml.api();
  nvml_device device;
  nvml_handle handle = nullptr;
  if (nvml.note(api.device_handle(index, &handle)) != nvml_success) {
    return device;
  }
  nvml_pci_info pci{};
  if (nvml.note(api.pci_info(handle, &pci)) == nvml_success) {
    device.pci_address = text_of(pci.bus_id);
  }
  device.uuid = ask_uuid(nvml, handle);
  if (api.name != nullptr) {
    device.name = ask_text<nvml_name_bytes>(
        nvml, [&](char* text, unsigned int size) { return api.name(handle, text, size); });
  }
  device.mig_uuids = ask_mig_uuids(nvml, handle);
  device.memory_nodes = ask_memory_nodes(nvml, handle);
  device.cpus = ask_cpus(nvml, handle);
  return device;
}

// "Not initialised" when the session was ended from outside.
nvml_status ask_devices(const nvml_api& api, std::vector<nvml_device>& devices) {
  session nvml{api};
  unsigned int count = 0;
  const nvml_status status =
      nvml.status() == nvml_success ? nvml.note(api.device_count(&count)) : nvml.status();
  if (status != nvml_success) {
    return status;
  }
  for (unsigned int index = 0; index < count && !nvml.is_ended(); ++index) {
    devices.push_back(ask_device(nvml, index));
  }
  return nvml.is_ended() ? nvml_error_uninitialized : nvml_success;
}

}  // namespace

error_code nvml_library::load(const nvml_api*& api) {
  const base::lock_guard lock{mutex_};
  if (api_ == nullptr) {
    void* handle = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return make_error_code(boost::system::errc::not_supported);
    }
    auto found = std::make_unique<nvml_api>();
    if (!bind_symbols(handle, *found)) {
      return nvml_error(nvml_error_function_not_found);
    }
    api_ = std::move(found);
  }
  api = api_.get();
  return {};
}

error_code nvml_library::devices(std::vector<nvml_device>& out) noexcept {
  try {
    const nvml_api* api = nullptr;
    if (const error_code failed = load(api)) {
      return failed;
    }
    std::vector<nvml_device> found;
    nvml_status status = ask_devices(*api, found);
    if (status == nvml_error_uninitialized) {
      found.clear();
      status = ask_devices(*api, found);
    }
    if (status != nvml_success) {
      return nvml_error(status);
    }
    out = std::move(found);
    return {};
  } catch (const std::bad_alloc&) {
    return make_error_code(boost::system::errc::not_enough_memory);
  }
}

// Never destroyed: static destructors may ask it. Ignores NUMAPOOL_NVML in a set-user-id process,
// as the dynamic linker ignores its own variables.
nvml& process_nvml() noexcept {
  static nvml& library = *[] {
    const char* name = ::secure_getenv(environment::nvml);
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): a process without room for this is lost
    return new nvml_library{name != nullptr && *name != '\0' ? name : usual_name};
  }();
  return library;
}

}  // namespace numapool::platform
