// SPDX-License-Identifier: Apache-2.0
//
// Goal: NVML is asked for every GPU, one thing that fails costs that thing alone, and nobody else's
// use of NVML is disturbed.
// Method: the real loader on the fake libraries, by path.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numapool/environment.hpp>

#include "fake_nvml_control.h"
#include "platform/nvml_error.hpp"
#include "platform/nvml_library.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* two_gpus =
    "00000000:3B:00.0=GPU-8f3c@1;cpus=16-31;name=NVIDIA H200"
    "|00000009:06:00.0=GPU-91aa@0;cpus=0-15;mig=MIG-1,MIG-2";

class Nvml : public testing::Test {
 protected:
  Nvml() {
    fake_nvml_reset();
    fake_nvml_set_devices(two_gpus);
  }

  nvml_library nvml_{FAKE_NVML};
  std::vector<nvml_device> found_;
};

TEST_F(Nvml, TellsEverythingOfEachGpuInNvmlsOrder) {
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[0].pci_address, "00000000:3B:00.0");
  EXPECT_EQ(found_[0].uuid, "GPU-8f3c");
  EXPECT_EQ(found_[0].name, "NVIDIA H200");
  EXPECT_THAT(found_[0].mig_uuids, IsEmpty());
  EXPECT_EQ(found_[0].memory_nodes, node_set{node_id{1}});
  EXPECT_EQ(found_[0].cpus.to_list(), "16-31");
  EXPECT_EQ(found_[1].pci_address, "00000009:06:00.0");
  EXPECT_THAT(found_[1].mig_uuids, ElementsAre("MIG-1", "MIG-2")) << "the indexes have gaps";
  EXPECT_EQ(found_[1].memory_nodes, node_set{node_id{0}});
}

TEST_F(Nvml, MasksReachTheKernelsHighestIds) {
  fake_nvml_set_devices("00000000:01:00.0=GPU-1@0,63,64,1023;cpus=0,63-64,8191");
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  EXPECT_EQ(found_.at(0).memory_nodes.to_list(), "0,63-64,1023");
  EXPECT_EQ(found_.at(0).cpus.to_list(), "0,63-64,8191");
}

TEST_F(Nvml, AnAffinityThatIsNotSupportedOrHasNoBitsIsUnknown) {
  fake_nvml_set_devices("00000000:01:00.0=GPU-1|00000000:02:00.0=GPU-2@;cpus=");
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  for (const nvml_device& device : found_) {
    EXPECT_THAT(device.memory_nodes, IsEmpty());
    EXPECT_THAT(device.cpus, IsEmpty());
    EXPECT_FALSE(device.uuid.empty());
  }
}

TEST_F(Nvml, AMachineWithoutAGpuIsNoError) {
  fake_nvml_set_devices("");
  found_.resize(1);
  EXPECT_EQ(nvml_.devices(found_), error_code{});
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(Nvml, AGpuThatCannotBeAskedKeepsItsPlace) {
  fake_nvml_set_devices(
      "00000000:01:00.0=GPU-1|00000000:02:00.0=GPU-2;lost=15|00000000:03:00.0=GPU-3");
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  ASSERT_EQ(found_.size(), 3U);
  EXPECT_EQ(found_[1].pci_address, "");
  EXPECT_EQ(found_[1].uuid, "");
  EXPECT_EQ(found_[2].uuid, "GPU-3");
}

// How many of the fields of the second GPU are filled.
int filled(const nvml_device& device) {
  return !device.pci_address.empty() + !device.uuid.empty() + !device.name.empty() +
         !device.mig_uuids.empty() + !device.memory_nodes.empty() + !device.cpus.empty();
}

TEST_F(Nvml, OneFunctionThatFailsCostsItsFieldAlone) {
  for (const char* name : {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetName", "nvmlDeviceGetMigMode",
                           "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMemoryAffinity",
                           "nvmlDeviceGetCpuAffinityWithinScope"}) {
    fake_nvml_fail_nth(name, 0, 3);
    ASSERT_EQ(nvml_.devices(found_), error_code{}) << name;
    EXPECT_EQ(filled(found_.at(1)), 5) << name;
    fake_nvml_clear_failures();
  }
  fake_nvml_fail_nth("nvmlDeviceGetMigDeviceHandleByIndex", 2, 6);
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  EXPECT_THAT(found_.at(1).mig_uuids, ElementsAre("MIG-2"));
}

TEST_F(Nvml, AFailureIsNvmlsOwnCodeAndLeavesTheAnswerAsItWas) {
  found_.resize(7);
  fake_nvml_fail_nth("nvmlInitWithFlags", 1, 9);
  const error_code no_driver = nvml_.devices(found_);
  EXPECT_EQ(no_driver, nvml_error(9));
  EXPECT_EQ(no_driver.message(), "NVML_ERROR_DRIVER_NOT_LOADED (9): the driver is not loaded");
  EXPECT_EQ(no_driver, boost::system::errc::no_such_device);
  fake_nvml_fail_nth("nvmlDeviceGetCount_v2", 1, 999);
  EXPECT_EQ(nvml_.devices(found_), nvml_error(999));
  EXPECT_EQ(nvml_error(12345).message(), "NVML error 12345");
  EXPECT_EQ(found_.size(), 7U);
  EXPECT_EQ(fake_nvml_references(), 0U);
  EXPECT_EQ(nvml_.devices(found_), error_code{}) << "a failure is not kept";
  EXPECT_EQ(found_.size(), 2U);
}

// ---- The library

TEST_F(Nvml, WithoutALibraryItIsNotSupported) {
  const error_code not_supported = make_error_code(boost::system::errc::not_supported);
  EXPECT_EQ(nvml_library{"/nonexistent/libnvidia-ml.so.1"}.devices(found_), not_supported);
  EXPECT_EQ(nvml_library{"/etc/passwd"}.devices(found_), not_supported);
}

TEST_F(Nvml, ALibraryThatAppearsLaterIsFound) {
  const auto link = std::filesystem::temp_directory_path() /
                    ("numapool-nvml-" + std::to_string(::getpid()) + ".so");
  nvml_library late{link};
  EXPECT_EQ(late.devices(found_), make_error_code(boost::system::errc::not_supported));
  std::filesystem::create_symlink(FAKE_NVML, link);
  EXPECT_EQ(late.devices(found_), error_code{});
  std::filesystem::remove(link);
  EXPECT_EQ(late.devices(found_), error_code{}) << "found once, kept";
}

TEST_F(Nvml, ALibraryThatLacksWhatWeNeedIsRefused) {
  EXPECT_EQ(nvml_library{FAKE_NVML_INCOMPLETE}.devices(found_), nvml_error(13));
  EXPECT_EQ(fake_nvml_count(nullptr), 0U);
}

TEST_F(Nvml, AnOldLibraryTellsWhatItCan) {
  ASSERT_EQ(nvml_library{FAKE_NVML_OLD}.devices(found_), error_code{});
  EXPECT_EQ(found_.at(1).uuid, "GPU-91aa");
  EXPECT_EQ(found_.at(1).cpus.to_list(), "0-15");
  EXPECT_THAT(found_.at(1).memory_nodes, IsEmpty());
  EXPECT_THAT(found_.at(1).mig_uuids, IsEmpty());
  EXPECT_EQ(fake_nvml_references(), 0U);
}

TEST_F(Nvml, TheEnvironmentNamesTheLibraryOfTheProcess) {
  ASSERT_EQ(::setenv(environment::nvml, FAKE_NVML, 1), 0);
  ASSERT_EQ(process_nvml().devices(found_), error_code{});
  EXPECT_EQ(found_.size(), 2U);
  EXPECT_EQ(&process_nvml(), &process_nvml());
}

// ---- Others who use NVML in this process

int others_call(const char* name) {
  void* library = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<int (*)()>(::dlsym(library, name))();
}

TEST_F(Nvml, IsInitialisedForTheCallAlone) {
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  EXPECT_EQ(fake_nvml_count("nvmlInitWithFlags"), 1U);
  EXPECT_EQ(fake_nvml_count("nvmlShutdown"), 1U);
  EXPECT_EQ(fake_nvml_references(), 0U);
}

TEST_F(Nvml, WhatIsPluggedInLaterIsSeen) {
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  fake_nvml_set_devices("00000000:3B:00.0=GPU-8f3c;mig=MIG-7");
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_THAT(found_[0].mig_uuids, ElementsAre("MIG-7"));
}

TEST_F(Nvml, AnothersUseGoesOn) {
  ASSERT_EQ(others_call("nvmlInit_v2"), 0);
  ASSERT_EQ(nvml_.devices(found_), error_code{});
  fake_nvml_fail_nth("nvmlDeviceGetCount_v2", 1, 999);
  ASSERT_EQ(nvml_.devices(found_), nvml_error(999));
  EXPECT_EQ(fake_nvml_references(), 1U);
  EXPECT_EQ(others_call("nvmlShutdown"), 0);
}

TEST_F(Nvml, BeginsAgainWhenAnotherShutsDownInTheMiddle) {
  for (const char* name : {"nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
                           "nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryAffinity"}) {
    fake_nvml_steal_reference_in(name);
    ASSERT_EQ(nvml_.devices(found_), error_code{}) << name;
    ASSERT_EQ(found_.size(), 2U) << name;
    EXPECT_EQ(filled(found_[1]), 6) << name;
    EXPECT_EQ(fake_nvml_references(), 0U) << name;
  }
  fake_nvml_fail_nth("nvmlDeviceGetCount_v2", 0, 1);
  EXPECT_EQ(nvml_.devices(found_), nvml_error(1)) << "once, not for ever";
}

TEST_F(Nvml, ThreadsMayAskAtOnce) {
  std::vector<std::vector<nvml_device>> found(8);
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (auto& mine : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(nvml_.devices(mine), error_code{});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& mine : found) {
    ASSERT_EQ(mine.size(), 2U);
    EXPECT_EQ(mine[1].uuid, "GPU-91aa");
  }
  EXPECT_EQ(fake_nvml_references(), 0U);
}

}  // namespace
}  // namespace numapool::platform
