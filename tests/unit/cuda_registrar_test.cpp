// SPDX-License-Identifier: Apache-2.0
//
// Goal: register and unregister are exact mirrors on each route, make a context on the target
// device alone, and leave the calling thread as it was, whatever CUDA answers.
// Method: the real registrar and loader on the fake libraries, once through the runtime and once
// through the driver alone.

#include "platform/cuda_registrar.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_scenario_run.hpp"
#include "fake_cuda_control.h"
#include "platform/cuda_error.hpp"

namespace numapool::platform {
namespace {

using test::run_scenario;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<cuda_registrar> make_registrar(std::vector<std::string> runtimes,
                                               std::string driver) {
  cuda_search search;
  search.in_process = false;
  search.runtime_names = std::move(runtimes);
  search.driver_name = std::move(driver);
  return std::make_unique<cuda_registrar>(std::move(search));
}

// One of the fake runtime's functions, as an application beside us would call it.
template <class... Arguments>
int call_runtime(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen(FAKE_CUDART, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name))(arguments...);
}

// Pages of our own, given back at the end.
class pages {
 public:
  explicit pages(std::size_t count)
      : size_bytes_{count * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))} {
    void* mapped =
        ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = static_cast<std::byte*>(mapped);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { ::munmap(data_, size_bytes_); }
  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_;
  std::byte* data_ = nullptr;
};

std::size_t registered_count() {
  return fake_cuda_registered_ranges(nullptr, 0);
}

class CudaRegistrar : public testing::TestWithParam<registrar_route> {
 protected:
  void SetUp() override {
    fake_cuda_reset();
    registrar_ = fresh();
  }
  void TearDown() override { fake_cuda_reset(); }

  bool is_runtime() const { return GetParam() == registrar_route::runtime; }
  std::unique_ptr<cuda_registrar> fresh() const {
    return is_runtime() ? make_registrar({FAKE_CUDART}, FAKE_LIBCUDA)
                        : make_registrar({}, FAKE_LIBCUDA);
  }
  const char* name_of(const char* runtime_name, const char* driver_name) const {
    return is_runtime() ? runtime_name : driver_name;
  }
  const char* register_name() const { return name_of("cudaHostRegister", "cuMemHostRegister_v2"); }
  const char* unregister_name() const {
    return name_of("cudaHostUnregister", "cuMemHostUnregister");
  }
  const char* pointer_name() const {
    return name_of("cudaHostGetDevicePointer", "cuMemHostGetDevicePointer_v2");
  }
  boost::system::error_code cuda_error(int value) const {
    return is_runtime() ? runtime_error(value) : driver_error(value);
  }

  boost::system::error_code add(int device, void** device_pointer = nullptr) {
    void* ignored = nullptr;
    void** out = device_pointer == nullptr ? &ignored : device_pointer;
    return registrar_->register_range(device, memory_.data(), memory_.size_bytes(), out);
  }
  unregister_result remove(int device) {
    return registrar_->unregister_range(device, memory_.data());
  }

  pages memory_{16};
  std::unique_ptr<cuda_registrar> registrar_;
};

INSTANTIATE_TEST_SUITE_P(Routes, CudaRegistrar,
                         testing::Values(registrar_route::runtime, registrar_route::driver),
                         [](const auto& route) {
                           return route.param == registrar_route::runtime ? "Runtime" : "Driver";
                         });

TEST_P(CudaRegistrar, ProbeSaysTheRouteAndMakesNoContext) {
  const registrar_status status = registrar_->probe();
  EXPECT_EQ(status.route, GetParam());
  EXPECT_EQ(status.device_count, 2);
  EXPECT_FALSE(status.error.failed());
  EXPECT_THAT(status.reason, HasSubstr("driver 13.0, 2 devices"));
  EXPECT_THAT(status.reason, HasSubstr(is_runtime() ? FAKE_CUDART : FAKE_LIBCUDA));
  EXPECT_EQ(fake_cuda_contexts_made(0) + fake_cuda_contexts_made(1), 0U);
}

TEST_P(CudaRegistrar, NoDeviceIsNoRouteUntilThereIsOne) {
  fake_cuda_set_devices(nullptr, 0);
  const registrar_status none = registrar_->probe();
  EXPECT_EQ(none.route, registrar_route::none);
  EXPECT_EQ(none.error, cuda_error(100));
  EXPECT_THAT(none.reason, HasSubstr("no CUDA device"));
  EXPECT_EQ(add(0), cuda_error(100));
  EXPECT_EQ(fake_cuda_last_error(), 0);
  const fake_cuda_device device{"0000:3b:00.0", 0};
  fake_cuda_set_devices(&device, 1);
  EXPECT_EQ(registrar_->probe().route, GetParam());
}

TEST_P(CudaRegistrar, AddressIsSpeltAsSysfsDoes) {
  std::string address;
  EXPECT_FALSE(registrar_->pci_address(0, address).failed());
  EXPECT_EQ(address, "0000:3b:00.0");
  EXPECT_EQ(registrar_->pci_address(7, address), cuda_error(101));
  EXPECT_EQ(address, "0000:3b:00.0");
  EXPECT_EQ(fake_cuda_last_error(), 0);
  EXPECT_EQ(fake_cuda_contexts_made(0), 0U);
}

TEST_P(CudaRegistrar, HostNodeIsTheDriversWord) {
  const std::vector<fake_cuda_device> devices = {{"0000:3b:00.0", 8}, {"0000:86:00.0", -1}};
  fake_cuda_set_devices(devices.data(), devices.size());
  int node = 77;
  EXPECT_EQ(registrar_->host_node(2, node), cuda_error(101));
  EXPECT_EQ(node, 77);
  EXPECT_FALSE(registrar_->host_node(0, node).failed());
  EXPECT_EQ(node, 8);
  EXPECT_FALSE(registrar_->host_node(1, node).failed());
  EXPECT_EQ(node, -1);
}

TEST_P(CudaRegistrar, RegistersPortableAndMappedAndUndoesExactly) {
  fake_cuda_set_device_pointer_offset(0x10000000);
  void* device_pointer = nullptr;
  ASSERT_FALSE(add(0, &device_pointer).failed());
  fake_cuda_range range{};
  ASSERT_EQ(fake_cuda_registered_ranges(&range, 1), 1U);
  EXPECT_EQ(range.address, memory_.data());
  EXPECT_EQ(range.size_bytes, memory_.size_bytes());
  EXPECT_EQ(range.flags, cuda_register_portable | cuda_register_mapped);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device_pointer),
            reinterpret_cast<std::uintptr_t>(memory_.data()) + 0x10000000);
  EXPECT_EQ(remove(0).outcome, unregister_outcome::unregistered);
  EXPECT_EQ(registered_count(), 0U);
}

TEST_P(CudaRegistrar, MakesAContextOnTheTargetDeviceAlone) {
  ASSERT_FALSE(add(1).failed());
  EXPECT_EQ(fake_cuda_contexts_made(1), 1U);
  // Dropped on a thread that has never used CUDA: its current device is 0, which must stay without
  // a context.
  std::thread([&] { EXPECT_EQ(remove(1).outcome, unregister_outcome::unregistered); }).join();
  EXPECT_EQ(remove(1).error, cuda_error(713));
  EXPECT_EQ(fake_cuda_contexts_made(0), 0U);
}

TEST_P(CudaRegistrar, LeavesTheCallersDeviceAndContextAsTheyWere) {
  ASSERT_EQ(call_runtime("cudaSetDevice", 0), 0);
  const std::size_t depth = fake_cuda_thread_context_depth();
  ASSERT_FALSE(add(1).failed());
  ASSERT_EQ(remove(1).outcome, unregister_outcome::unregistered);
  int current = -1;
  ASSERT_EQ(call_runtime("cudaGetDevice", &current), 0);
  EXPECT_EQ(current, 0);
  EXPECT_EQ(fake_cuda_thread_context_depth(), depth);
}

TEST_P(CudaRegistrar, ConsumesOnlyItsOwnError) {
  fake_cuda_fail_nth(register_name(), 1, 2);
  EXPECT_EQ(add(0), cuda_error(2));
  EXPECT_EQ(fake_cuda_last_error(), 0);
  ASSERT_EQ(call_runtime("cudaHostUnregister", static_cast<void*>(memory_.data())),
            713);  // the application's own failure
  fake_cuda_fail_nth(register_name(), 1, 2);
  EXPECT_EQ(add(0), cuda_error(2));
  EXPECT_EQ(fake_cuda_last_error(), 713);
  EXPECT_FALSE(add(0).failed());
  EXPECT_EQ(remove(0).outcome, unregister_outcome::unregistered);
  EXPECT_EQ(remove(0).error, cuda_error(713));
  std::string address;
  EXPECT_TRUE(registrar_->pci_address(9, address).failed());
  EXPECT_EQ(fake_cuda_last_error(), 713);
}

// From the first call on, a fresh registrar each time, on the device that is current and on another
// one.
TEST_P(CudaRegistrar, WhicheverCallFailsNothingIsLeftRegisteredAndNothingPending) {
  for (const int device : {0, 1}) {
    bool has_failed = true;
    for (unsigned long nth = 1; has_failed; ++nth) {
      ASSERT_LT(nth, 50U);
      fake_cuda_reset();
      registrar_ = fresh();
      fake_cuda_fail_nth(nullptr, nth, 999);
      void* device_pointer = memory_.data() + 1;
      const auto error = add(device, &device_pointer);
      has_failed = fake_cuda_count(nullptr) >= nth;
      fake_cuda_clear_failures();
      EXPECT_EQ(fake_cuda_last_error(), 0);
      EXPECT_EQ(registered_count(), error.failed() ? 0U : 1U)
          << "call " << nth << ": " << error.message();
      if (error.failed()) {
        EXPECT_EQ(device_pointer, memory_.data() + 1);
      } else {
        EXPECT_EQ(remove(device).outcome, unregister_outcome::unregistered);
      }
      EXPECT_EQ(fake_cuda_contexts_made(1 - device), 0U);
    }
  }
}

TEST_P(CudaRegistrar, WhicheverCallOfUnregisteringFailsItIsSaidAndCanBeTriedAgain) {
  bool has_failed = true;
  for (unsigned long nth = 1; has_failed; ++nth) {
    ASSERT_LT(nth, 50U);
    ASSERT_FALSE(add(1).failed());
    const unsigned long before = fake_cuda_count(nullptr);
    fake_cuda_fail_nth(nullptr, nth, 999);
    const unregister_result result = remove(1);
    has_failed = fake_cuda_count(nullptr) - before >= nth;
    fake_cuda_clear_failures();
    EXPECT_EQ(fake_cuda_last_error(), 0);
    if (result.outcome == unregister_outcome::failed) {
      EXPECT_EQ(result.error, cuda_error(999));
      EXPECT_EQ(registered_count(), 1U);
      EXPECT_EQ(remove(1).outcome, unregister_outcome::unregistered);
    }
    EXPECT_EQ(registered_count(), 0U);
  }
}

TEST_P(CudaRegistrar, RangeWithoutADevicePointerIsTakenBack) {
  fake_cuda_fail_nth(pointer_name(), 1, 999);
  EXPECT_EQ(add(0), cuda_error(999));
  EXPECT_EQ(fake_cuda_count(unregister_name()), 1U);
  EXPECT_EQ(registered_count(), 0U);
}

TEST_P(CudaRegistrar, RangeThatCannotBeTakenBackIsTheCallersToUnregister) {
  fake_cuda_fail_nth(pointer_name(), 1, 999);
  fake_cuda_fail_nth(unregister_name(), 1, 999);
  void* device_pointer = memory_.data();
  EXPECT_FALSE(add(0, &device_pointer).failed());
  EXPECT_EQ(device_pointer, nullptr);
  EXPECT_EQ(fake_cuda_last_error(), 0);
  EXPECT_EQ(registered_count(), 1U);
  EXPECT_EQ(remove(0).outcome, unregister_outcome::unregistered);
}

TEST_P(CudaRegistrar, OverlapAndSizeLimitAreTheDriversErrors) {
  ASSERT_FALSE(add(0).failed());
  EXPECT_EQ(add(1), cuda_error(712));
  EXPECT_EQ(registered_count(), 1U);
  EXPECT_EQ(remove(0).outcome, unregister_outcome::unregistered);
  fake_cuda_set_limit(memory_.size_bytes() - 1, 1);
  EXPECT_EQ(add(0), cuda_error(1));
}

TEST_P(CudaRegistrar, DriverThatIsGoneIsNoFailure) {
  ASSERT_FALSE(add(1).failed());
  fake_cuda_set_gone(1);
  EXPECT_EQ(remove(1).outcome, unregister_outcome::driver_gone);
  EXPECT_EQ(add(1), cuda_error(4));
}

TEST_P(CudaRegistrar, RangeIsReleasedAfterTheDriversExitHandler) {
  const std::string folder = FAKE_CUDA_FOLDER;
  // With an older driver the fake runtime steps aside. A toolkit's own, where there is one, is
  // never asked.
  const std::string driver_version = is_runtime() ? "13000" : "12000";
  const auto said = run_scenario("LD_LIBRARY_PATH='" + folder + "/runtime:" + folder + "/driver'" +
                                     " NUMAPOOL_FAKE_CUDA_DRIVER_VERSION=" + driver_version,
                                 CUDA_SCENARIO, "release-at-exit");
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_EQ(said.value("registered"), "1") << said.text;
  EXPECT_EQ(said.value("route"), std::to_string(static_cast<int>(GetParam()))) << said.text;
  EXPECT_EQ(said.value("outcome"),
            std::to_string(static_cast<int>(unregister_outcome::driver_gone)))
      << said.text;
}

TEST_P(CudaRegistrar, ForkedChildIsToldThatCudaIsNotItsOwn) {
  ASSERT_FALSE(add(0).failed());
  const pid_t child = ::fork();
  if (child == 0) {
    const unregister_result result = remove(0);
    ::_exit(result.outcome == unregister_outcome::failed && result.error == cuda_error(3) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(remove(0).outcome, unregister_outcome::unregistered);
}

TEST_P(CudaRegistrar, EightThreadsRegisterAtOnce) {
  constexpr std::size_t thread_count = 8;
  std::vector<std::unique_ptr<pages>> ranges;
  for (std::size_t i = 0; i < thread_count; ++i) {
    ranges.push_back(std::make_unique<pages>(4));
  }
  fake_cuda_hold(register_name());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      const int device = static_cast<int>(i % 2);
      void* device_pointer = nullptr;
      const pages& mine = *ranges[i];
      EXPECT_FALSE(
          registrar_->register_range(device, mine.data(), mine.size_bytes(), &device_pointer)
              .failed());
      EXPECT_EQ(device_pointer, mine.data());
    });
  }
  fake_cuda_wait_until_held(
      thread_count);  // all inside the driver's call: no lock of ours is held across it
  fake_cuda_release();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(registered_count(), thread_count);
  for (std::size_t i = 0; i < thread_count; ++i) {
    EXPECT_EQ(registrar_->unregister_range(static_cast<int>(i % 2), ranges[i]->data()).outcome,
              unregister_outcome::unregistered);
  }
  EXPECT_EQ(registered_count(), 0U);
}

TEST_P(CudaRegistrar, ActiveDevicesAreThoseWithAContext) {
  std::vector<int> active = {5};
  EXPECT_FALSE(registrar_->active_devices(active).failed());
  EXPECT_THAT(active, IsEmpty());
  ASSERT_FALSE(add(1).failed());
  EXPECT_FALSE(registrar_->active_devices(active).failed());
  EXPECT_THAT(active, ElementsAre(1));
  EXPECT_EQ(fake_cuda_contexts_made(0), 0U);
}

TEST_P(CudaRegistrar, UnregisteringBeforeAnythingInitialisesNothing) {
  EXPECT_EQ(remove(0).outcome, unregister_outcome::failed);
  EXPECT_EQ(fake_cuda_initialized(), 0);
}

// ---- What only one route has.

class CudaRegistrarRoute : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_reset(); }
  void TearDown() override { fake_cuda_reset(); }
  pages first_{4};
  pages second_{4};
};

TEST_F(CudaRegistrarRoute, DriverKeepsTheContextAsLongAsRangesAreRegistered) {
  const auto registrar = make_registrar({}, FAKE_LIBCUDA);
  void* pointer = nullptr;
  ASSERT_FALSE(registrar->register_range(1, first_.data(), first_.size_bytes(), &pointer).failed());
  ASSERT_FALSE(
      registrar->register_range(1, second_.data(), second_.size_bytes(), &pointer).failed());
  EXPECT_EQ(fake_cuda_context_references(1), 2U);
  EXPECT_EQ(registrar->unregister_range(1, first_.data()).outcome,
            unregister_outcome::unregistered);
  EXPECT_EQ(fake_cuda_context_references(1), 1U);
  EXPECT_EQ(registrar->unregister_range(1, first_.data()).outcome, unregister_outcome::failed);
  EXPECT_EQ(fake_cuda_context_references(1), 1U);
  EXPECT_EQ(registrar->unregister_range(1, second_.data()).outcome,
            unregister_outcome::unregistered);
  EXPECT_EQ(fake_cuda_context_references(1), 0U);
  EXPECT_EQ(fake_cuda_contexts_made(1), 1U);
  EXPECT_EQ(fake_cuda_thread_context_depth(), 0U);
}

TEST_F(CudaRegistrarRoute, RuntimeKeepsAContextThatTheCallerMadeCurrent) {
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  ASSERT_EQ(call_runtime("cudaSetDevice", 1), 0);
  const unsigned long before = fake_cuda_count("cudaSetDevice");
  void* pointer = nullptr;
  ASSERT_FALSE(registrar->register_range(1, first_.data(), first_.size_bytes(), &pointer).failed());
  EXPECT_EQ(fake_cuda_count("cudaSetDevice"), before);
  EXPECT_EQ(registrar->unregister_range(1, first_.data()).outcome,
            unregister_outcome::unregistered);
}

TEST_F(CudaRegistrarRoute, RuntimeWithoutADriverIsNoRoute) {
  fake_cuda_set_versions(13000, 0);
  const auto registrar = make_registrar({FAKE_CUDART}, "/nonexistent/libcuda.so.1");
  const registrar_status status = registrar->probe();
  EXPECT_EQ(status.route, registrar_route::none);
  EXPECT_EQ(status.error, runtime_error(35));
  EXPECT_THAT(status.reason, HasSubstr("cannot be used: cudaErrorInsufficientDriver (35)"));
  EXPECT_THAT(status.reason, HasSubstr("no CUDA driver (/nonexistent/libcuda.so.1: not found)"));
}

TEST_F(CudaRegistrarRoute, RuntimeThatIsTooNewLeavesTheDriversOwnCall) {
  fake_cuda_set_versions(13000, 12040);
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  const registrar_status status = registrar->probe();
  EXPECT_EQ(status.route, registrar_route::driver);
  EXPECT_THAT(status.reason, HasSubstr("driver 12.4"));
  void* pointer = nullptr;
  EXPECT_FALSE(registrar->register_range(0, first_.data(), first_.size_bytes(), &pointer).failed());
  EXPECT_EQ(registrar->unregister_range(0, first_.data()).outcome,
            unregister_outcome::unregistered);
}

TEST_F(CudaRegistrarRoute, RouteThatWorkedOnceIsKept) {
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  ASSERT_EQ(registrar->probe().route, registrar_route::runtime);
  fake_cuda_fail_nth("cudaGetDeviceCount", 1, 35);
  const registrar_status failing = registrar->probe();
  EXPECT_EQ(failing.route, registrar_route::none);
  EXPECT_EQ(failing.error, runtime_error(35));
  EXPECT_EQ(registrar->probe().route, registrar_route::runtime);
  EXPECT_EQ(fake_cuda_count("cuInit"), 0U);
}

TEST_F(CudaRegistrarRoute, NothingThereIsSaidInOneSentence) {
  const auto registrar =
      make_registrar({"/nonexistent/libcudart.so.13"}, "/nonexistent/libcuda.so.1");
  const registrar_status status = registrar->probe();
  EXPECT_EQ(status.route, registrar_route::none);
  EXPECT_EQ(status.device_count, 0);
  EXPECT_EQ(status.error, make_error_code(boost::system::errc::not_supported));
  EXPECT_EQ(status.reason,
            "no CUDA runtime (/nonexistent/libcudart.so.13: not found); no CUDA driver "
            "(/nonexistent/libcuda.so.1: not "
            "found)");
  void* pointer = nullptr;
  EXPECT_EQ(registrar->register_range(0, first_.data(), first_.size_bytes(), &pointer),
            status.error);
}

}  // namespace
}  // namespace numapool::platform
