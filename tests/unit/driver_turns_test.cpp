// SPDX-License-Identifier: Apache-2.0
//
// Goal: while 64 GB are registered in chunks, another thread's CUDA call waits for one chunk at
// most, though the driver's lock goes to whoever asks first.
// Method: the real registrar on the fake CUDA libraries, whose calls take one global lock and a
// time a byte, over addresses without memory.

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fake_cuda_control.h"
#include "memory/registration.hpp"
#include "platform/cuda_registrar.hpp"

namespace numapool::memory {
namespace {

constexpr std::size_t gib = 1ULL << 30U;
constexpr std::size_t range_bytes = 64 * gib;
constexpr std::size_t chunk_bytes = 2 * gib;

// Addresses alone: the driver here looks at none of them.
class reserved_range {
 public:
  explicit reserved_range(platform::platform& machine) : state(machine) {
    void* const made =
        ::mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(made, MAP_FAILED);
    state.adopt(
        {static_cast<std::byte*>(made), range_bytes, static_cast<std::byte*>(made), range_bytes});
  }
  buffer_state state;
};

using count_devices = int (*)(int*);

count_devices other_threads_call() {
  static void* const library = ::dlopen(FAKE_CUDART, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<count_devices>(::dlsym(library, "cudaGetDeviceCount"));
}

TEST(DriverTurns, OfOtherThreadsComeAfterOneChunkAtMost) {
  fake_cuda_reset();
  platform::cuda_search search;
  search.in_process = false;
  search.runtime_names = {FAKE_CUDART};
  search.driver_name = FAKE_LIBCUDA;
  platform::cuda_registrar registrar(std::move(search));
  platform::platform& real = platform::this_machine();
  platform::platform machine{real.files, real.threads, real.memory, registrar};
  ASSERT_EQ(registrar.probe().route, platform::registrar_route::runtime);
  const count_devices ask = other_threads_call();
  ASSERT_NE(ask, nullptr);
  {
    reserved_range range(machine);
    chunked_registration registration(range.state, 0, chunk_bytes, chunk_bytes);
    fake_cuda_set_delay(0, 5, 1);  // 11 ms a chunk
    std::atomic<bool> is_done{false};
    std::vector<std::size_t> chunks_waited_for;
    std::thread other([&] {
      while (!is_done) {
        const std::size_t before = fake_cuda_registered_ranges(nullptr, 0);
        int devices = 0;
        EXPECT_EQ(ask(&devices), 0);
        chunks_waited_for.push_back(fake_cuda_registered_ranges(nullptr, 0) - before);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    const failure why = registration.register_rest({});
    is_done = true;
    other.join();
    fake_cuda_set_delay(0, 0, 0);
    EXPECT_FALSE(why) << why.message;
    EXPECT_EQ(range.state.registrations.size(), range_bytes / chunk_bytes);
    ASSERT_GE(chunks_waited_for.size(), range_bytes / chunk_bytes / 2);
    // Where all CPUs are busy a woken thread may come too late for its turn; as a rule it does not.
    std::sort(chunks_waited_for.begin(), chunks_waited_for.end());
    EXPECT_LE(chunks_waited_for[chunks_waited_for.size() * 9 / 10], 1U);
    EXPECT_GE(chunks_waited_for.back(), 1U) << "it never had to wait: the lock is not shared";
  }
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U);
  fake_cuda_reset();
}

}  // namespace
}  // namespace numapool::memory
