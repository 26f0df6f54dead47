// SPDX-License-Identifier: Apache-2.0
//
// Goal: our own declarations of CUDA's functions and numbers agree with a toolkit's headers. Built only where there is
// one. Method: a function agrees when it has as many parameters, and each has the same size and kind: a pointer as
// deep, or an integer or enumeration of the same width. Almost all is decided while compiling.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "platform/cuda_api.hpp"

namespace numapool::platform {
namespace {

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

// A handle points to a type of the library's own, so the innermost pointed-to types are compared when they are numbers.
template <class Ours, class Theirs>
constexpr bool same_kind() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using our_target = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using their_target = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_pointer_v<our_target> || std::is_pointer_v<their_target>) {
      return same_kind<our_target, their_target>();
    } else if constexpr (is_number<our_target> && is_number<their_target>) {
      return sizeof(our_target) == sizeof(their_target);
    } else {
      return !is_number<our_target> && !is_number<their_target>;
    }
  } else if constexpr (is_number<Ours> && is_number<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else {
    return false;
  }
}

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
constexpr bool agree(OurResult (*)(Ours...), TheirResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return same_kind<OurResult, TheirResult>() && (same_kind<Ours, Theirs>() && ...);
  }
}

// The comparison must be able to fail.
static_assert(!agree(static_cast<int (*)(void*)>(nullptr), static_cast<int (*)(void**)>(nullptr)));
static_assert(!agree(static_cast<int (*)(int)>(nullptr), static_cast<int (*)(std::size_t)>(nullptr)));
static_assert(!agree(static_cast<int (*)(int)>(nullptr), static_cast<int (*)(int, int)>(nullptr)));

constexpr runtime_api runtime;
static_assert(agree(runtime.host_register, &::cudaHostRegister));
static_assert(agree(runtime.host_unregister, &::cudaHostUnregister));
static_assert(agree(runtime.host_get_device_pointer, &::cudaHostGetDevicePointer));
static_assert(agree(runtime.set_device, &::cudaSetDevice));
static_assert(agree(runtime.get_device, &::cudaGetDevice));
static_assert(agree(runtime.get_device_count, &::cudaGetDeviceCount));
static_assert(agree(runtime.device_get_pci_bus_id, &::cudaDeviceGetPCIBusId));
static_assert(agree(runtime.device_get_attribute, &::cudaDeviceGetAttribute));
static_assert(agree(runtime.get_last_error, &::cudaGetLastError));
static_assert(agree(runtime.peek_at_last_error, &::cudaPeekAtLastError));
static_assert(agree(runtime.runtime_get_version, &::cudaRuntimeGetVersion));
static_assert(agree(runtime.driver_get_version, &::cudaDriverGetVersion));

constexpr driver_api driver;
static_assert(agree(driver.init, &::cuInit));
static_assert(agree(driver.driver_get_version, &::cuDriverGetVersion));
static_assert(agree(driver.device_get_count, &::cuDeviceGetCount));
static_assert(agree(driver.device_get, &::cuDeviceGet));
static_assert(agree(driver.device_get_pci_bus_id, &::cuDeviceGetPCIBusId));
static_assert(agree(driver.device_get_attribute, &::cuDeviceGetAttribute));
static_assert(agree(driver.primary_context_retain, &::cuDevicePrimaryCtxRetain));
static_assert(agree(driver.primary_context_release, &::cuDevicePrimaryCtxRelease));
static_assert(agree(driver.primary_context_get_state, &::cuDevicePrimaryCtxGetState));
static_assert(agree(driver.context_push, &::cuCtxPushCurrent));
static_assert(agree(driver.context_pop, &::cuCtxPopCurrent));
static_assert(agree(driver.host_register, &::cuMemHostRegister));
static_assert(agree(driver.host_unregister, &::cuMemHostUnregister));
static_assert(agree(driver.host_get_device_pointer, &::cuMemHostGetDevicePointer));

static_assert(cuda_success == static_cast<int>(cudaSuccess) && cuda_success == static_cast<int>(CUDA_SUCCESS));
static_assert(cuda_error_invalid_value == static_cast<int>(cudaErrorInvalidValue));
static_assert(cuda_error_invalid_value == static_cast<int>(CUDA_ERROR_INVALID_VALUE));
static_assert(cuda_error_out_of_memory == static_cast<int>(cudaErrorMemoryAllocation));
static_assert(cuda_error_out_of_memory == static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY));
static_assert(cuda_error_not_initialized == static_cast<int>(cudaErrorInitializationError));
static_assert(cuda_error_not_initialized == static_cast<int>(CUDA_ERROR_NOT_INITIALIZED));
static_assert(cuda_error_unloading == static_cast<int>(cudaErrorCudartUnloading));
static_assert(cuda_error_unloading == static_cast<int>(CUDA_ERROR_DEINITIALIZED));
static_assert(cuda_error_insufficient_driver == static_cast<int>(cudaErrorInsufficientDriver));
static_assert(cuda_error_no_device == static_cast<int>(cudaErrorNoDevice));
static_assert(cuda_error_no_device == static_cast<int>(CUDA_ERROR_NO_DEVICE));
static_assert(cuda_error_invalid_device == static_cast<int>(cudaErrorInvalidDevice));
static_assert(cuda_error_invalid_device == static_cast<int>(CUDA_ERROR_INVALID_DEVICE));
static_assert(cuda_error_already_registered == static_cast<int>(cudaErrorHostMemoryAlreadyRegistered));
static_assert(cuda_error_already_registered == static_cast<int>(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
static_assert(cuda_error_not_registered == static_cast<int>(cudaErrorHostMemoryNotRegistered));
static_assert(cuda_error_not_registered == static_cast<int>(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
static_assert(cuda_error_not_permitted == static_cast<int>(cudaErrorNotPermitted));
static_assert(cuda_error_not_permitted == static_cast<int>(CUDA_ERROR_NOT_PERMITTED));
static_assert(cuda_error_not_supported == static_cast<int>(cudaErrorNotSupported));
static_assert(cuda_error_not_supported == static_cast<int>(CUDA_ERROR_NOT_SUPPORTED));
static_assert(cuda_register_portable == cudaHostRegisterPortable && cuda_register_mapped == cudaHostRegisterMapped);
static_assert(cuda_register_portable == CU_MEMHOSTREGISTER_PORTABLE &&
              cuda_register_mapped == CU_MEMHOSTREGISTER_DEVICEMAP);
#if CUDART_VERSION >= 12020
static_assert(cuda_attribute_host_numa_id == static_cast<int>(cudaDevAttrHostNumaId));
static_assert(cuda_attribute_host_numa_id == static_cast<int>(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID));
#endif

// A macro of the header renames a function to its current version: the symbol must carry the same suffix as our list.
#define NUMAPOOL_TEST_TEXT(x) NUMAPOOL_TEST_TEXT_OF(x)
#define NUMAPOOL_TEST_TEXT_OF(x) #x
TEST(CudaApiHeader, DriverSymbolsAreTheOnesThatTheHeaderNames) {
  const std::vector<std::string> named_by_header = {
      NUMAPOOL_TEST_TEXT(cuInit),
      NUMAPOOL_TEST_TEXT(cuDriverGetVersion),
      NUMAPOOL_TEST_TEXT(cuDeviceGetCount),
      NUMAPOOL_TEST_TEXT(cuDeviceGet),
      NUMAPOOL_TEST_TEXT(cuDeviceGetPCIBusId),
      NUMAPOOL_TEST_TEXT(cuDeviceGetAttribute),
      NUMAPOOL_TEST_TEXT(cuDevicePrimaryCtxRetain),
      NUMAPOOL_TEST_TEXT(cuDevicePrimaryCtxRelease),
      NUMAPOOL_TEST_TEXT(cuDevicePrimaryCtxGetState),
      NUMAPOOL_TEST_TEXT(cuCtxPushCurrent),
      NUMAPOOL_TEST_TEXT(cuCtxPopCurrent),
      NUMAPOOL_TEST_TEXT(cuMemHostRegister),
      NUMAPOOL_TEST_TEXT(cuMemHostUnregister),
      NUMAPOOL_TEST_TEXT(cuMemHostGetDevicePointer),
  };
  std::vector<std::string> ours;
  driver_api api;
  visit_symbols(api, [&](const char* symbol, auto&) { ours.emplace_back(symbol); });
  EXPECT_EQ(ours, named_by_header);
}

}  // namespace
}  // namespace numapool::platform
