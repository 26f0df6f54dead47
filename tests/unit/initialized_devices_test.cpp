// SPDX-License-Identifier: Apache-2.0
//
// Goal: the devices of an initialised driver are told, and no question initialises or loads one.
// Method: the real registrar and loader on the fake libraries, which count.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cuda_scenario_run.hpp"
#include "fake_cuda_control.h"
#include "platform/cuda_error.hpp"
#include "platform/cuda_registrar.hpp"

namespace numapool::platform {
namespace {

using test::run_scenario;

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

class InitializedDevices : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_reset(); }
  void TearDown() override { fake_cuda_reset(); }
};

TEST_F(InitializedDevices, DevicesAreNamedOnceSomebodyInitialisedTheDriver) {
  const fake_cuda_device devices[] = {{"0008:01:00.0", 1}, {"0000:86:00.0", -1}};
  fake_cuda_set_devices(devices, 2);
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  ASSERT_NE(::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL),
            nullptr);  // as an application beside us would
  std::vector<initialized_device> found(5);
  EXPECT_EQ(registrar->initialized_devices(found), driver_error(cuda_error_not_initialized));
  EXPECT_EQ(found.size(), 5U);
  EXPECT_EQ(fake_cuda_initialized(), 0);
  int count = 0;
  ASSERT_EQ(call_runtime("cudaGetDeviceCount", &count), 0);
  ASSERT_FALSE(registrar->initialized_devices(found).failed());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].pci_address, "0008:01:00.0");
  EXPECT_EQ(found[0].host_node, 1);
  EXPECT_EQ(found[1].host_node, -1);
  EXPECT_EQ(fake_cuda_contexts_made(0) + fake_cuda_contexts_made(1), 0U);
  EXPECT_EQ(fake_cuda_count("cuInit"), 0U);
}

TEST_F(InitializedDevices, ADriverBeforeTheQuestionNamesItsDevicesWithoutTheNode) {
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  ASSERT_EQ(registrar->probe().route, registrar_route::runtime);
  ASSERT_NE(::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL), nullptr);
  fake_cuda_fail_nth("cuDeviceGetAttribute", 0, cuda_error_invalid_value);
  std::vector<initialized_device> found;
  ASSERT_FALSE(registrar->initialized_devices(found).failed());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].pci_address, "0000:3b:00.0");
  EXPECT_EQ(found[0].host_node, -1);
}

TEST_F(InitializedDevices, AForkedChildFindsItsDriverUninitialised) {
  const auto registrar = make_registrar({FAKE_CUDART}, FAKE_LIBCUDA);
  ASSERT_EQ(registrar->probe().route, registrar_route::runtime);
  ASSERT_NE(::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL), nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<initialized_device> found;
    ::_exit(registrar->initialized_devices(found) == driver_error(cuda_error_not_initialized) ? 0
                                                                                              : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(InitializedDevices, ADriverThatNobodyLoadedIsNotLoadedToBeAsked) {
  const std::string folder = FAKE_CUDA_FOLDER;
  const auto said = run_scenario("LD_LIBRARY_PATH='" + folder + "/runtime:" + folder + "/driver'",
                                 CUDA_SCENARIO, "initialized");
  EXPECT_EQ(said.value("error"),
            std::to_string(static_cast<int>(boost::system::errc::not_supported)))
      << said.text;
  EXPECT_EQ(said.value("driver_loaded"), "0");
}

}  // namespace
}  // namespace numapool::platform
