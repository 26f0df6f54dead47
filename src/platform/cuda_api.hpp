// SPDX-License-Identifier: Apache-2.0
#pragma once

// The few CUDA functions that numapool calls, declared by us: building needs no toolkit, and one binary serves hosts
// with and without CUDA. tests/unit/cuda_api_header_test.cpp holds these declarations against a toolkit's headers where
// there is one. Names and numbers are those of the CUDA Runtime API and CUDA Driver API reference manuals. Threads:
// values; safe.

#include <cstddef>

namespace numapool::platform {

// cudaError_t and CUresult are int-sized enumerations. Ours are plain ints: a newer library may answer with a number
// that no list of ours has.
using cuda_status = int;
using driver_status = int;

// Answers that the code decides on. Both libraries use the same number for each; all others are only passed on.
inline constexpr int cuda_success = 0;
inline constexpr int cuda_error_invalid_value = 1;
inline constexpr int cuda_error_out_of_memory = 2;
inline constexpr int cuda_error_not_initialized = 3;
inline constexpr int cuda_error_unloading = 4;             // cudaErrorCudartUnloading, CUDA_ERROR_DEINITIALIZED
inline constexpr int cuda_error_insufficient_driver = 35;  // the runtime's alone
inline constexpr int cuda_error_no_device = 100;
inline constexpr int cuda_error_invalid_device = 101;
inline constexpr int cuda_error_already_registered = 712;
inline constexpr int cuda_error_not_registered = 713;
inline constexpr int cuda_error_not_permitted = 800;
inline constexpr int cuda_error_not_supported = 801;

// Flags of cudaHostRegister and cuMemHostRegister: valid in every context, and mapped into the device's address space.
inline constexpr unsigned int cuda_register_portable = 1;
inline constexpr unsigned int cuda_register_mapped = 2;

// Attribute "node of the host memory closest to the device", -1 where the system has no NUMA. Since CUDA 12.2.
inline constexpr int cuda_attribute_host_numa_id = 134;

// Functions of libcudart, all there since 11.0.
struct runtime_api {
  cuda_status (*host_register)(void* address, std::size_t size_bytes, unsigned int flags) = nullptr;
  cuda_status (*host_unregister)(void* address) = nullptr;
  cuda_status (*host_get_device_pointer)(void** device_pointer, void* address, unsigned int flags) = nullptr;
  cuda_status (*set_device)(int device) = nullptr;
  cuda_status (*get_device)(int* device) = nullptr;
  cuda_status (*get_device_count)(int* count) = nullptr;
  cuda_status (*device_get_pci_bus_id)(char* text, int size, int device) = nullptr;
  cuda_status (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  cuda_status (*get_last_error)() = nullptr;
  cuda_status (*peek_at_last_error)() = nullptr;
  cuda_status (*runtime_get_version)(int* version) = nullptr;
  cuda_status (*driver_get_version)(int* version) = nullptr;
};

// A CUcontext is an opaque pointer, a CUdevice an int, a CUdeviceptr a 64-bit unsigned integer on every platform we
// know.
using driver_context = void*;
using driver_device = int;
using driver_address = unsigned long long;

// Functions of libcuda, all there since 11.0. `_v2` is part of a symbol's name where the manual's macro adds it.
struct driver_api {
  driver_status (*init)(unsigned int flags) = nullptr;
  driver_status (*driver_get_version)(int* version) = nullptr;
  driver_status (*device_get_count)(int* count) = nullptr;
  driver_status (*device_get)(driver_device* device, int ordinal) = nullptr;
  driver_status (*device_get_pci_bus_id)(char* text, int size, driver_device device) = nullptr;
  driver_status (*device_get_attribute)(int* value, int attribute, driver_device device) = nullptr;
  driver_status (*primary_context_retain)(driver_context* context, driver_device device) = nullptr;
  driver_status (*primary_context_release)(driver_device device) = nullptr;
  driver_status (*primary_context_get_state)(driver_device device, unsigned int* flags, int* active) = nullptr;
  driver_status (*context_push)(driver_context context) = nullptr;
  driver_status (*context_pop)(driver_context* context) = nullptr;
  driver_status (*host_register)(void* address, std::size_t size_bytes, unsigned int flags) = nullptr;
  driver_status (*host_unregister)(void* address) = nullptr;
  driver_status (*host_get_device_pointer)(driver_address* pointer, void* address, unsigned int flags) = nullptr;
};

// Shows `visit` each function's symbol and the member that holds it. The one list of symbols.
template <class Visitor>
void visit_symbols(runtime_api& api, Visitor&& visit) {
  visit("cudaHostRegister", api.host_register);
  visit("cudaHostUnregister", api.host_unregister);
  visit("cudaHostGetDevicePointer", api.host_get_device_pointer);
  visit("cudaSetDevice", api.set_device);
  visit("cudaGetDevice", api.get_device);
  visit("cudaGetDeviceCount", api.get_device_count);
  visit("cudaDeviceGetPCIBusId", api.device_get_pci_bus_id);
  visit("cudaDeviceGetAttribute", api.device_get_attribute);
  visit("cudaGetLastError", api.get_last_error);
  visit("cudaPeekAtLastError", api.peek_at_last_error);
  visit("cudaRuntimeGetVersion", api.runtime_get_version);
  visit("cudaDriverGetVersion", api.driver_get_version);
}

template <class Visitor>
void visit_symbols(driver_api& api, Visitor&& visit) {
  visit("cuInit", api.init);
  visit("cuDriverGetVersion", api.driver_get_version);
  visit("cuDeviceGetCount", api.device_get_count);
  visit("cuDeviceGet", api.device_get);
  visit("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  visit("cuDeviceGetAttribute", api.device_get_attribute);
  visit("cuDevicePrimaryCtxRetain", api.primary_context_retain);
  visit("cuDevicePrimaryCtxRelease_v2", api.primary_context_release);
  visit("cuDevicePrimaryCtxGetState", api.primary_context_get_state);
  visit("cuCtxPushCurrent_v2", api.context_push);
  visit("cuCtxPopCurrent_v2", api.context_pop);
  visit("cuMemHostRegister_v2", api.host_register);
  visit("cuMemHostUnregister", api.host_unregister);
  visit("cuMemHostGetDevicePointer_v2", api.host_get_device_pointer);
}

}  // namespace numapool::platform
