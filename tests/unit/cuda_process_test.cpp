// SPDX-License-Identifier: Apache-2.0
//
// Goal: the fake libraries serve whole processes through the environment, as the command line's
// tests need; and the registrar of nothing refuses everything.
// Method: a scenario program as a child, its report read back.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_scenario_run.hpp"
#include "platform/registrar.hpp"

namespace numapool::platform {
namespace {

using test::run_scenario;
using testing::HasSubstr;

TEST(FakeCudaProcess, EnvironmentMakesTheFakesDevices) {
  const std::string folder = FAKE_CUDA_FOLDER;
  const auto said = run_scenario(
      "LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_FAKE_CUDA_DEVICES='0000:3b:00.0@1'",
      CUDA_SCENARIO, "probe");
  EXPECT_EQ(said.value("route"), "1") << said.text;
  EXPECT_EQ(said.value("devices"), "1");
  const auto failing = run_scenario(
      "LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_FAKE_CUDA_FAIL='cudaGetDeviceCount:1:999'",
      CUDA_SCENARIO, "probe");
  EXPECT_EQ(failing.value("error"), "999") << failing.text;
}

TEST(FakeCudaProcess, FakeReportsAtExitWhatItWasAsked) {
  const std::string folder = FAKE_CUDA_FOLDER;
  const std::string report =
      testing::TempDir() + "numapool-fake-cuda-" + std::to_string(::getpid());
  const auto said = run_scenario(
      "LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_FAKE_CUDA_REPORT='" + report + "'",
      CUDA_SCENARIO, "release-at-exit");
  std::ifstream stream{report};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  ::unlink(report.c_str());
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(text, HasSubstr("count cudaHostRegister 1\n"));
  EXPECT_THAT(text, HasSubstr("device 1 contexts_made 0 references 0\n"));
  EXPECT_THAT(text, HasSubstr("registered 1\n"));  // the driver had gone before its owner did
}

TEST(NullRegistrar, IsNotSupportedThroughout) {
  null_registrar none;
  alignas(4096) static std::array<std::byte, 4096> page{};
  const auto not_supported = make_error_code(boost::system::errc::not_supported);
  EXPECT_EQ(none.probe().route, registrar_route::none);
  std::string address;
  std::vector<int> active;
  int node = 0;
  void* pointer = nullptr;
  EXPECT_EQ(none.pci_address(0, address), not_supported);
  EXPECT_EQ(none.host_node(0, node), not_supported);
  EXPECT_EQ(none.active_devices(active), not_supported);
  EXPECT_EQ(none.register_range(0, page.data(), page.size(), &pointer), not_supported);
  EXPECT_EQ(none.unregister_range(0, page.data()).outcome, unregister_outcome::failed);
}

}  // namespace
}  // namespace numapool::platform
