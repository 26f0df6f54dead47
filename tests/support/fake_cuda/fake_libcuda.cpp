// SPDX-License-Identifier: Apache-2.0
//
// A fake libcuda: the driver functions that numapool and its tests call, by the rules in fake_cuda_control.h.

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "fake_cuda_state.hpp"

namespace {

using fake_cuda::context;
using fake_cuda::device;
using fake_cuda::scoped_call;
using fake_cuda::state;
using fake_cuda::the_state;
using fake_cuda::thread_state;

template <class Work>
int driver_call(const char* name, Work work, std::size_t size_bytes = 0) {
  scoped_call call{fake_cuda::api::driver, name, size_bytes};
  if (call.refused() != fake_cuda::success) {
    return call.refused();
  }
  state& shared = the_state();
  return work(shared, fake_cuda::this_thread(shared), call);
}

// For functions that need a context to be current.
template <class Work>
int context_call(const char* name, Work work, std::size_t size_bytes = 0) {
  return driver_call(
      name,
      [&](state& shared, thread_state& thread, scoped_call& call) {
        const context* current = fake_cuda::current_context(thread);
        if (current == nullptr) {
          return int{fake_cuda::invalid_context};
        }
        if (current->owner->references == 0) {
          return int{fake_cuda::context_is_destroyed};
        }
        return work(shared, current, call);
      },
      size_bytes);
}

// For functions of a device; `work(device)`.
template <class Work>
int device_call(const char* name, int ordinal, Work work) {
  return driver_call(name, [&](state& shared, thread_state&, scoped_call&) {
    device* which = fake_cuda::find_device(shared, ordinal);
    return which == nullptr ? int{fake_cuda::invalid_device} : work(shared, *which);
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are CUDA's
extern "C" {

int cuInit(unsigned int flags) {
  return driver_call("cuInit", [&](state& shared, thread_state&, scoped_call&) {
    return flags != 0 ? int{fake_cuda::invalid_value} : fake_cuda::initialize(shared);
  });
}

int cuDriverGetVersion(int* version) {
  state& shared = the_state();
  const std::lock_guard lock{shared.mutex};
  ++shared.counts["cuDriverGetVersion"];
  *version = shared.driver_version;
  return fake_cuda::success;
}

int cuDeviceGetCount(int* count) {
  return driver_call("cuDeviceGetCount", [&](state& shared, thread_state&, scoped_call&) {
    *count = static_cast<int>(shared.devices.size());
    return int{fake_cuda::success};
  });
}

int cuDeviceGet(int* device, int ordinal) {
  return device_call("cuDeviceGet", ordinal, [&](state&, fake_cuda::device& which) {
    *device = which.ordinal;
    return int{fake_cuda::success};
  });
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return device_call("cuDeviceGetPCIBusId", device, [&](state&, fake_cuda::device& which) {
    const int length =
        std::snprintf(text, static_cast<std::size_t>(size), "%s", fake_cuda::printed_address(which).c_str());
    return int{length < size ? fake_cuda::success : fake_cuda::invalid_value};
  });
}

int cuDeviceGetAttribute(int* value, int number, int device) {
  return device_call("cuDeviceGetAttribute", device,
                     [&](state&, fake_cuda::device& which) { return fake_cuda::attribute(which, number, *value); });
}

int cuDevicePrimaryCtxRetain(void** retained, int device) {
  return device_call("cuDevicePrimaryCtxRetain", device, [&](state&, fake_cuda::device& which) {
    fake_cuda::retain(which);
    *retained = &which.primary;
    return int{fake_cuda::success};
  });
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  return device_call("cuDevicePrimaryCtxRelease_v2", device,
                     [&](state& shared, fake_cuda::device& which) { return fake_cuda::release(shared, which); });
}

int cuDevicePrimaryCtxGetState(int device, unsigned int* flags, int* active) {
  return device_call("cuDevicePrimaryCtxGetState", device, [&](state&, fake_cuda::device& which) {
    *flags = 0;
    *active = which.references != 0 ? 1 : 0;
    return int{fake_cuda::success};
  });
}

int cuCtxPushCurrent_v2(void* pushed) {
  return driver_call("cuCtxPushCurrent_v2", [&](state&, thread_state& thread, scoped_call&) {
    if (pushed == nullptr) {
      return int{fake_cuda::invalid_context};
    }
    thread.contexts.push_back(static_cast<context*>(pushed));
    return int{fake_cuda::success};
  });
}

int cuCtxPopCurrent_v2(void** popped) {
  return driver_call("cuCtxPopCurrent_v2", [&](state&, thread_state& thread, scoped_call&) {
    if (thread.contexts.empty()) {
      return int{fake_cuda::invalid_context};
    }
    if (popped != nullptr) {
      *popped = thread.contexts.back();
    }
    thread.contexts.pop_back();
    return int{fake_cuda::success};
  });
}

int cuCtxGetCurrent(void** current) {
  return driver_call("cuCtxGetCurrent", [&](state&, thread_state& thread, scoped_call&) {
    *current = fake_cuda::current_context(thread);
    return int{fake_cuda::success};
  });
}

int cuMemHostRegister_v2(void* address, std::size_t size_bytes, unsigned int flags) {
  return context_call(
      "cuMemHostRegister_v2",
      [&](state& shared, const context* current, scoped_call&) {
        return fake_cuda::register_range(shared, current, address, size_bytes, flags);
      },
      size_bytes);
}

#ifndef FAKE_LIBCUDA_WITHOUT_HOST_UNREGISTER
int cuMemHostUnregister(void* address) {
  return context_call("cuMemHostUnregister", [&](state& shared, const context*, scoped_call&) {
    return fake_cuda::unregister_range(shared, address);
  });
}
#endif

int cuMemHostGetDevicePointer_v2(unsigned long long* pointer, void* address, unsigned int flags) {
  return context_call("cuMemHostGetDevicePointer_v2", [&](state& shared, const context*, scoped_call&) {
    std::uint64_t found = 0;
    if (flags != 0) {
      return int{fake_cuda::invalid_value};
    }
    const int status = fake_cuda::device_pointer(shared, address, found);
    if (status == fake_cuda::success) {
      *pointer = found;
    }
    return status;
  });
}

int cuGetErrorName(int code, const char** text) {
  *text = fake_cuda::error_name(code);
  return fake_cuda::success;
}

int cuGetErrorString(int code, const char** text) {
  return cuGetErrorName(code, text);
}

int cuEventCreate(void** event, unsigned int) {
  return context_call("cuEventCreate", [&](state& shared, const context*, scoped_call&) {
    return fake_cuda::make_event(shared, event);
  });
}

int cuEventRecord(void* event, void*) {
  return context_call("cuEventRecord", [&](state& shared, const context*, scoped_call&) {
    return fake_cuda::record_event(shared, event);
  });
}

int cuEventQuery(void* event) {
  return driver_call("cuEventQuery",
                     [&](state& shared, thread_state&, scoped_call&) { return fake_cuda::query_event(shared, event); });
}

int cuEventSynchronize(void* event) {
  return driver_call("cuEventSynchronize", [&](state& shared, thread_state&, scoped_call& call) {
    return fake_cuda::synchronize_event(call, shared, event);
  });
}

int cuEventDestroy_v2(void* event) {
  return driver_call("cuEventDestroy_v2", [&](state& shared, thread_state&, scoped_call&) {
    return fake_cuda::destroy_event(shared, event);
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
