// SPDX-License-Identifier: Apache-2.0
//
// Goal: the fake CUDA libraries keep the rules of the real ones, so that what is proven on them is
// worth something.
// Method: both fakes are linked in and called directly; the state behind them is looked at through
// its control functions.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "fake_cuda_control.h"

// NOLINTBEGIN(readability-identifier-naming): these names are CUDA's
extern "C" {
int cudaHostRegister(void*, std::size_t, unsigned int);
int cudaHostUnregister(void*);
int cudaHostGetDevicePointer(void**, void*, unsigned int);
int cudaSetDevice(int);
int cudaGetDevice(int*);
int cudaGetDeviceCount(int*);
int cudaDeviceGetPCIBusId(char*, int, int);
int cudaDeviceGetAttribute(int*, int, int);
int cudaGetLastError();
int cudaPeekAtLastError();
int cudaDriverGetVersion(int*);
int cudaEventCreateWithFlags(void**, unsigned int);
int cudaEventRecord(void*, void*);
int cudaEventQuery(void*);
int cudaEventSynchronize(void*);
int cudaEventDestroy(void*);
int cudaMalloc(void**, std::size_t);
int cudaFree(void*);
int cudaMemcpy(void*, const void*, std::size_t, int);
int cudaDeviceReset();
int cuInit(unsigned int);
int cuDeviceGetCount(int*);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxPushCurrent_v2(void*);
int cuCtxPopCurrent_v2(void**);
int cuMemHostRegister_v2(void*, std::size_t, unsigned int);
int cuMemHostUnregister(void*);
}
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr unsigned int portable_mapped = 3;

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_reset();
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, 8 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(memory_), MAP_FAILED);
  }
  void TearDown() override {
    fake_cuda_reset();
    ::munmap(memory_, 8 * page_);
  }

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* memory_ = nullptr;
};

TEST_F(FakeCuda, RegisteringCoversThePagesThatTheRangeTouches) {
  ASSERT_EQ(cudaHostRegister(memory_ + 1, page_, portable_mapped), 0);
  fake_cuda_range range{};
  ASSERT_EQ(fake_cuda_registered_ranges(&range, 1), 1U);
  EXPECT_EQ(range.begin, memory_);
  EXPECT_EQ(range.end, memory_ + 2 * page_);
  EXPECT_EQ(range.address, memory_ + 1);
  EXPECT_EQ(range.flags, portable_mapped);
}

TEST_F(FakeCuda, RefusesAPageThatIsRegisteredAlready) {
  ASSERT_EQ(cudaHostRegister(memory_ + page_, 2 * page_, portable_mapped), 0);
  EXPECT_EQ(cudaHostRegister(memory_ + page_, 2 * page_, portable_mapped), 712);
  EXPECT_EQ(cudaHostRegister(memory_, page_ + 1, portable_mapped), 712);
  EXPECT_EQ(cudaHostRegister(memory_ + 3 * page_ - 1, 1, portable_mapped), 712);
  EXPECT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  EXPECT_EQ(cudaHostRegister(memory_ + 3 * page_, page_, portable_mapped), 0);
}

TEST_F(FakeCuda, RefusesZeroBytesUnknownFlagsAndUnmappedPages) {
  EXPECT_EQ(cudaHostRegister(memory_, 0, portable_mapped), 1);
  EXPECT_EQ(cudaHostRegister(nullptr, page_, portable_mapped), 1);
  EXPECT_EQ(cudaHostRegister(memory_, page_, 16), 1);
  ASSERT_EQ(::munmap(memory_ + page_, page_), 0);
  EXPECT_EQ(cudaHostRegister(memory_, 2 * page_, portable_mapped), 1);
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U);
}

TEST_F(FakeCuda, UnregisteringTakesTheRegisteredAddress) {
  ASSERT_EQ(cudaHostRegister(memory_, 2 * page_, portable_mapped), 0);
  EXPECT_EQ(cudaHostUnregister(memory_ + page_), 713);
  EXPECT_EQ(cudaHostUnregister(memory_), 0);
  EXPECT_EQ(cudaHostUnregister(memory_), 713);
}

TEST_F(FakeCuda, CountsThePagesThatNobodyHadTouched) {
  memory_[0] = std::byte{1};
  ASSERT_EQ(cudaHostRegister(memory_, 4 * page_, portable_mapped), 0);
  fake_cuda_range range{};
  fake_cuda_registered_ranges(&range, 1);
  EXPECT_EQ(range.pages_not_resident, 3U);
}

TEST_F(FakeCuda, RuntimeErrorStaysPendingOnItsThreadAlone) {
  EXPECT_EQ(cudaHostUnregister(memory_), 713);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), 0);
  EXPECT_EQ(cudaPeekAtLastError(), 713);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), 0); }).join();
  EXPECT_EQ(cudaGetLastError(), 713);
  EXPECT_EQ(cudaGetLastError(), 0);
}

TEST_F(FakeCuda, DriverErrorLeavesNothingPending) {
  ASSERT_EQ(cuInit(0), 0);
  EXPECT_EQ(cuMemHostUnregister(memory_), 201);  // no context is current
  EXPECT_EQ(cudaPeekAtLastError(), 0);
}

TEST_F(FakeCuda, CountingAndAskingMakeNoContext) {
  int value = 0;
  std::array<char, 32> text{};
  ASSERT_EQ(cudaGetDeviceCount(&value), 0);
  EXPECT_EQ(value, 2);
  ASSERT_EQ(cudaDeviceGetPCIBusId(text.data(), 32, 0), 0);
  EXPECT_STREQ(text.data(), "0000:3B:00.0");
  ASSERT_EQ(cudaDeviceGetAttribute(&value, 134, 1), 0);
  EXPECT_EQ(value, 1);
  ASSERT_EQ(cudaGetDevice(&value), 0);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(fake_cuda_contexts_made(0) + fake_cuda_contexts_made(1), 0U);
}

TEST_F(FakeCuda, SettingADeviceMakesItsContextSinceRuntime12) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  EXPECT_EQ(fake_cuda_context_active(1), 1);
  fake_cuda_reset();
  fake_cuda_set_versions(11080, 13000);
  ASSERT_EQ(cudaSetDevice(1), 0);
  EXPECT_EQ(fake_cuda_context_active(1), 0);
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  EXPECT_EQ(fake_cuda_context_active(1), 1);
  EXPECT_EQ(fake_cuda_context_active(0), 0);
}

TEST_F(FakeCuda, UnregisteringOnAnotherThreadMakesAContextOnDeviceZero) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  std::thread([&] { EXPECT_EQ(cudaHostUnregister(memory_), 0); }).join();
  EXPECT_EQ(fake_cuda_context_active(0), 1);  // the trap that the registrar must avoid
}

TEST_F(FakeCuda, ContextDiesWithItsLastReferenceAndItsRangesWithIt) {
  ASSERT_EQ(cuInit(0), 0);
  void* context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), 0);
  ASSERT_EQ(cuCtxPushCurrent_v2(context), 0);
  ASSERT_EQ(cuMemHostRegister_v2(memory_, page_, portable_mapped), 0);
  ASSERT_EQ(cuCtxPopCurrent_v2(nullptr), 0);
  ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(1), 0);
  EXPECT_EQ(fake_cuda_context_active(1), 0);
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), 201);
}

TEST_F(FakeCuda, ResettingADeviceTakesItsRangesAndLeavesItUsable) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  ASSERT_EQ(cudaDeviceReset(), 0);
  EXPECT_EQ(fake_cuda_context_active(1), 0);
  EXPECT_EQ(cudaHostUnregister(memory_), 713);
  EXPECT_EQ(fake_cuda_context_active(1), 1);
  EXPECT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
}

TEST_F(FakeCuda, CopyMustLieInOneRegistrationOrInNone) {
  constexpr int to_device = 1;
  constexpr int to_host = 2;
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 2 * page_), 0);
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  ASSERT_EQ(cudaHostRegister(memory_ + page_, page_, portable_mapped), 0);
  memory_[page_] = std::byte{7};
  EXPECT_EQ(cudaMemcpy(device, memory_, 2 * page_, to_device), 1);
  EXPECT_EQ(cudaMemcpy(device, memory_ + page_, page_, to_device), 0);
  EXPECT_EQ(cudaMemcpy(memory_, device, page_, to_host), 0);
  EXPECT_EQ(memory_[0], std::byte{7});
  EXPECT_EQ(cudaMemcpy(memory_ + page_, device, 2 * page_, to_host), 1);  // ends outside
  EXPECT_EQ(cudaMemcpy(memory_ + 2 * page_, device, 2 * page_, to_host), 0);
  EXPECT_EQ(cudaFree(device), 0);
  EXPECT_EQ(cudaFree(device), 1);
}

TEST_F(FakeCuda, RuntimeAndDriverSeeTheSameRegistrations) {
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  EXPECT_EQ(cuMemHostRegister_v2(memory_, page_, portable_mapped), 712);
  EXPECT_EQ(cuMemHostUnregister(memory_), 0);
  EXPECT_EQ(cudaHostUnregister(memory_), 713);
}

TEST_F(FakeCuda, FailsTheNthCallOfANameOrOfAll) {
  int count = 0;
  fake_cuda_fail_nth("cudaGetDeviceCount", 2, 999);
  EXPECT_EQ(cudaGetDeviceCount(&count), 0);
  EXPECT_EQ(cudaGetDevice(&count), 0);
  EXPECT_EQ(cudaGetDeviceCount(&count), 999);
  EXPECT_EQ(cudaGetDeviceCount(&count), 0);
  fake_cuda_fail_nth(nullptr, 2, 2);
  EXPECT_EQ(cudaGetDevice(&count), 0);
  EXPECT_EQ(cudaGetDeviceCount(&count), 2);
  fake_cuda_fail_nth("cudaGetDevice", 0, 46);
  EXPECT_EQ(cudaGetDevice(&count), 46);
  EXPECT_EQ(cudaGetDevice(&count), 46);
  fake_cuda_clear_failures();
  EXPECT_EQ(cudaGetDevice(&count), 0);
  EXPECT_EQ(fake_cuda_count("cudaGetDevice"), 5U);
}

TEST_F(FakeCuda, RefusesARegistrationBeyondTheLimit) {
  fake_cuda_set_limit(2 * page_, 2);
  EXPECT_EQ(cudaHostRegister(memory_, 3 * page_, portable_mapped), 2);
  EXPECT_EQ(cudaHostRegister(memory_, 2 * page_, portable_mapped), 0);
}

TEST_F(FakeCuda, MissingOrOldDriverAnswers35OnEveryThreadForEver) {
  for (const int driver_version : {0, 12040}) {
    fake_cuda_set_versions(13000, driver_version);
    int value = 0;
    EXPECT_EQ(cudaGetDeviceCount(&value), 35);
    EXPECT_EQ(cudaGetLastError(), 35);
    std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), 35); }).join();
    EXPECT_EQ(cudaDriverGetVersion(&value), 0);
    EXPECT_EQ(value, driver_version);
  }
  fake_cuda_set_versions(13010, 13000);  // one major version: compatible
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), 0);
}

TEST_F(FakeCuda, NoDeviceIs100) {
  fake_cuda_set_devices(nullptr, 0);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), 100);
  EXPECT_EQ(cuInit(0), 100);
  EXPECT_EQ(cuDeviceGetCount(&count), 3);
}

TEST_F(FakeCuda, DriverWantsInitialisationFirst) {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), 3);
  ASSERT_EQ(cuInit(0), 0);
  EXPECT_EQ(cuDeviceGetCount(&count), 0);
}

TEST_F(FakeCuda, GoneAnswers4) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), 0);
  fake_cuda_set_gone(1);
  EXPECT_EQ(cudaHostUnregister(memory_), 4);
  EXPECT_EQ(cuDeviceGetCount(&count), 4);
}

TEST_F(FakeCuda, ForkedChildHearsThatNothingIsInitialised) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(cudaGetDeviceCount(&count) == 3 && cuDeviceGetCount(&count) == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(FakeCuda, EventsFinishWhenTold) {
  void* event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 2), 0);
  EXPECT_EQ(cudaEventQuery(event), 0);  // never recorded
  fake_cuda_set_events_late(1);
  ASSERT_EQ(cudaEventRecord(event, nullptr), 0);
  EXPECT_EQ(cudaEventQuery(event), 600);
  std::thread waiting([&] { EXPECT_EQ(cudaEventSynchronize(event), 0); });
  fake_cuda_complete_events();
  waiting.join();
  EXPECT_EQ(cudaEventQuery(event), 0);
  EXPECT_EQ(cudaEventDestroy(event), 0);
  EXPECT_EQ(cudaEventQuery(event), 400);
}

TEST_F(FakeCuda, HeldCallsStopBeforeTheyDoAnything) {
  fake_cuda_hold("cudaHostRegister");
  std::thread registering([&] { EXPECT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0); });
  fake_cuda_wait_until_held(1);
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), 0);  // other functions go on
  fake_cuda_release();
  registering.join();
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 1U);
}

TEST_F(FakeCuda, DelayGrowsWithTheBytesRegistered) {
  const auto taken_by = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - start;
  };
  constexpr std::uint64_t ps_per_byte = 1'000'000;  // 4 ms a page of 4 KiB
  fake_cuda_set_delay(0, ps_per_byte, 1);
  const auto taken =
      taken_by([&] { EXPECT_EQ(cudaHostRegister(memory_, 2 * page_, portable_mapped), 0); });
  EXPECT_GE(taken, std::chrono::nanoseconds{2 * page_ * ps_per_byte / 1000});
}

TEST_F(FakeCuda, DevicePointerNeedNotBeTheHosts) {
  fake_cuda_set_device_pointer_offset(0x1000000);
  ASSERT_EQ(cudaHostRegister(memory_, page_, portable_mapped), 0);
  void* pointer = nullptr;
  ASSERT_EQ(cudaHostGetDevicePointer(&pointer, memory_, 0), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer),
            reinterpret_cast<std::uintptr_t>(memory_) + 0x1000000);
  EXPECT_EQ(cudaHostGetDevicePointer(&pointer, memory_ + page_, 0), 1);
}

}  // namespace
