// SPDX-License-Identifier: Apache-2.0
//
// A fake libcudart: the runtime functions that numapool and its tests call, by the rules in
// fake_cuda_control.h. Types are plain ones of the same size as the real ones: nothing here needs a
// toolkit.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "fake_cuda_state.hpp"

namespace {

using fake_cuda::scoped_call;
using fake_cuda::state;
using fake_cuda::the_state;
using fake_cuda::thread_state;

// A call that can fail: `work(state, thread)` is done under the lock unless the call was refused.
template <class Work>
int runtime_call(const char* name, Work work, std::size_t size_bytes = 0) {
  scoped_call call{fake_cuda::api::runtime, name, size_bytes};
  if (call.refused() != fake_cuda::success) {
    return call.finish(call.refused());
  }
  state& shared = the_state();
  return call.finish(work(shared, fake_cuda::this_thread(shared), call));
}

// A call that cannot fail, and that neither initialises nor waits.
template <class Work>
int plain_call(const char* name, Work work) {
  state& shared = the_state();
  const std::lock_guard lock{shared.mutex};
  ++shared.counts[name];
  return work(shared);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are CUDA's
extern "C" {

int cudaHostRegister(void* address, std::size_t size_bytes, unsigned int flags) {
  return runtime_call(
      "cudaHostRegister",
      [&](state& shared, thread_state& thread, scoped_call&) {
        const fake_cuda::context* current = fake_cuda::make_runtime_context(shared, thread);
        return fake_cuda::register_range(shared, current, address, size_bytes, flags);
      },
      size_bytes);
}

#ifndef FAKE_CUDART_WITHOUT_HOST_UNREGISTER
int cudaHostUnregister(void* address) {
  return runtime_call("cudaHostUnregister", [&](state& shared, thread_state& thread, scoped_call&) {
    fake_cuda::make_runtime_context(shared, thread);
    return fake_cuda::unregister_range(shared, address);
  });
}
#endif

int cudaHostGetDevicePointer(void** pointer, void* address, unsigned int flags) {
  return runtime_call("cudaHostGetDevicePointer",
                      [&](state& shared, thread_state& thread, scoped_call&) {
                        if (flags != 0) {
                          return int{fake_cuda::invalid_value};
                        }
                        fake_cuda::make_runtime_context(shared, thread);
                        std::uint64_t found = 0;
                        const int status = fake_cuda::device_pointer(shared, address, found);
                        if (status == fake_cuda::success) {
                          *pointer = std::bit_cast<void*>(found);
                        }
                        return status;
                      });
}

int cudaSetDevice(int device) {
  return runtime_call("cudaSetDevice", [&](state& shared, thread_state& thread, scoped_call&) {
    return fake_cuda::set_runtime_device(shared, thread, device);
  });
}

int cudaGetDevice(int* device) {
  return runtime_call("cudaGetDevice", [&](state&, thread_state& thread, scoped_call&) {
    *device = fake_cuda::runtime_device(thread);
    return int{fake_cuda::success};
  });
}

int cudaGetDeviceCount(int* count) {
  return runtime_call("cudaGetDeviceCount", [&](state& shared, thread_state&, scoped_call&) {
    *count = static_cast<int>(shared.devices.size());
    return int{fake_cuda::success};
  });
}

int cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return runtime_call("cudaDeviceGetPCIBusId", [&](state& shared, thread_state&, scoped_call&) {
    const fake_cuda::device* which = fake_cuda::find_device(shared, device);
    if (which == nullptr) {
      return int{fake_cuda::invalid_device};
    }
    const int length = std::snprintf(text, static_cast<std::size_t>(size), "%s",
                                     fake_cuda::printed_address(*which).c_str());
    return int{length < size ? fake_cuda::success : fake_cuda::invalid_value};
  });
}

int cudaDeviceGetAttribute(int* value, int number, int device) {
  return runtime_call("cudaDeviceGetAttribute", [&](state& shared, thread_state&, scoped_call&) {
    const fake_cuda::device* which = fake_cuda::find_device(shared, device);
    return which == nullptr ? int{fake_cuda::invalid_device}
                            : fake_cuda::attribute(*which, number, *value);
  });
}

int cudaGetLastError() {
  return plain_call("cudaGetLastError", [](state& shared) {
    if (shared.lacks_driver()) {
      return int{fake_cuda::insufficient_driver};
    }
    const int pending = fake_cuda::this_thread(shared).last_error;
    fake_cuda::this_thread(shared).last_error = fake_cuda::success;
    return pending;
  });
}

int cudaPeekAtLastError() {
  return plain_call("cudaPeekAtLastError", [](state& shared) {
    return shared.lacks_driver() ? int{fake_cuda::insufficient_driver}
                                 : fake_cuda::this_thread(shared).last_error;
  });
}

int cudaRuntimeGetVersion(int* version) {
  return plain_call("cudaRuntimeGetVersion", [&](state& shared) {
    *version = shared.runtime_version;
    return int{fake_cuda::success};
  });
}

int cudaDriverGetVersion(int* version) {
  return plain_call("cudaDriverGetVersion", [&](state& shared) {
    *version = shared.driver_version;
    return int{fake_cuda::success};
  });
}

const char* cudaGetErrorName(int code) {
  return fake_cuda::error_name(code);
}
const char* cudaGetErrorString(int code) {
  return fake_cuda::error_name(code);
}

// ---- Memory of the device lies in host memory, and copies are done at once.

int cudaMalloc(void** made, std::size_t size_bytes) {
  return runtime_call("cudaMalloc", [&](state& shared, thread_state& thread, scoped_call&) {
    fake_cuda::make_runtime_context(shared, thread);
    return fake_cuda::allocate_device_memory(shared, made, size_bytes);
  });
}

int cudaFree(void* address) {
  return runtime_call("cudaFree", [&](state& shared, thread_state& thread, scoped_call&) {
    fake_cuda::make_runtime_context(shared, thread);
    return fake_cuda::free_device_memory(shared, address);
  });
}

int cudaMemcpy(void* to, const void* from, std::size_t size_bytes, int kind) {
  return runtime_call("cudaMemcpy", [&](state& shared, thread_state& thread, scoped_call&) {
    fake_cuda::make_runtime_context(shared, thread);
    return fake_cuda::copy(shared, to, from, size_bytes, kind);
  });
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t size_bytes, int kind, void*) {
  return runtime_call("cudaMemcpyAsync", [&](state& shared, thread_state& thread, scoped_call&) {
    fake_cuda::make_runtime_context(shared, thread);
    return fake_cuda::copy(shared, to, from, size_bytes, kind);
  });
}

int cudaDeviceSynchronize() {
  return runtime_call("cudaDeviceSynchronize",
                      [](state& shared, thread_state& thread, scoped_call&) {
                        fake_cuda::make_runtime_context(shared, thread);
                        return int{fake_cuda::success};
                      });
}

int cudaDeviceReset() {
  return runtime_call("cudaDeviceReset", [](state& shared, thread_state& thread, scoped_call&) {
    return fake_cuda::reset_runtime_device(shared, thread);
  });
}

// ---- Streams are opaque and do nothing; events finish late when told so.

int cudaStreamCreateWithFlags(void** stream, unsigned int) {
  return runtime_call("cudaStreamCreateWithFlags",
                      [&](state& shared, thread_state& thread, scoped_call&) {
                        fake_cuda::make_runtime_context(shared, thread);
                        return fake_cuda::make_event(shared, stream);
                      });
}

int cudaStreamDestroy(void* stream) {
  return runtime_call("cudaStreamDestroy", [&](state& shared, thread_state&, scoped_call&) {
    return fake_cuda::destroy_event(shared, stream);
  });
}

int cudaEventCreateWithFlags(void** event, unsigned int) {
  return runtime_call("cudaEventCreateWithFlags",
                      [&](state& shared, thread_state& thread, scoped_call&) {
                        fake_cuda::make_runtime_context(shared, thread);
                        return fake_cuda::make_event(shared, event);
                      });
}

int cudaEventRecord(void* event, void*) {
  return runtime_call("cudaEventRecord", [&](state& shared, thread_state&, scoped_call&) {
    return fake_cuda::record_event(shared, event);
  });
}

int cudaEventQuery(void* event) {
  return runtime_call("cudaEventQuery", [&](state& shared, thread_state&, scoped_call&) {
    return fake_cuda::query_event(shared, event);
  });
}

int cudaEventSynchronize(void* event) {
  return runtime_call("cudaEventSynchronize", [&](state& shared, thread_state&, scoped_call& call) {
    return fake_cuda::synchronize_event(call, shared, event);
  });
}

int cudaEventDestroy(void* event) {
  return runtime_call("cudaEventDestroy", [&](state& shared, thread_state&, scoped_call&) {
    return fake_cuda::destroy_event(shared, event);
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
