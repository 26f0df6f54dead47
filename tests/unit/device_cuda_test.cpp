// SPDX-License-Identifier: Apache-2.0

// Goal: no question about devices or nodes initialises CUDA, loads it or makes a context, so that a
// child forked afterwards can use it; where CUDA is initialised, its own word is taken.
// Method: the public functions of this process beside the fake CUDA libraries, which count.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

#include "fake_cuda_control.h"

namespace numapool {
namespace {

/// The driver, as an application beside us would have loaded it.
int init_driver() {
  static void* const driver = ::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<int (*)(unsigned int)>(::dlsym(driver, "cuInit"))(0);
}

void ask_everything() {
  const auto machine = topology::system();
  static_cast<void>(locate_device(0));
  static_cast<void>(locate_device(pci_address{0, 0x3b, 0, 0}));
  static_cast<void>(host_devices());
  static_cast<void>(visible_devices());
  static_cast<void>(cpu_slice(pci_address{0, 0x3b, 0, 0}));
  static_cast<void>(neighbourhood_of(pci_address{0, 0x3b, 0, 0}));
  static_cast<void>(dynamo_nvidia_smi_id(0));
}

void allocate_without_cuda(pin_policy pin) {
  worker_pool pool;
  request what;
  what.size_bytes = 4096;
  what.device = 0;
  what.pin = pin;
  boost::system::error_code error;
  static_cast<void>(pool.allocate(what, error));
}

class DeviceCuda : public testing::Test {
 protected:
  void SetUp() override { fake_cuda_reset(); }
  void TearDown() override {
    fake_cuda_reset();
    refresh_devices();
  }
};

TEST_F(DeviceCuda, QuestionsLoadNoDriver) {
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) {
    GTEST_SKIP() << "a test before this one has loaded the fake";
  }
  ask_everything();
  allocate_without_cuda(pin_policy::none);
  allocate_without_cuda(pin_policy::mlock);
  EXPECT_EQ(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST_F(DeviceCuda, QuestionsInitialiseNothingThatIsLoaded) {
  ASSERT_NE(::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL), nullptr);
  ask_everything();
  allocate_without_cuda(pin_policy::none);
  allocate_without_cuda(pin_policy::mlock);
  EXPECT_EQ(fake_cuda_initialized(), 0);
  EXPECT_EQ(fake_cuda_count("cuInit"), 0U);
  EXPECT_EQ(fake_cuda_contexts_made(0) + fake_cuda_contexts_made(1), 0U);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(init_driver());
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);  // as it would not be, had its parent initialised CUDA
}

TEST_F(DeviceCuda, ItsWordIsTakenWhereItIsInitialised) {
  const fake_cuda_device devices[] = {{"0000:86:00.0", 0}, {"0008:01:00.0", 0}};
  fake_cuda_set_devices(devices, 2);
  ASSERT_EQ(init_driver(), 0);
  const auto visible = visible_devices();
  ASSERT_EQ(visible.size(), 2U);
  EXPECT_EQ(visible[0].address, (pci_address{0, 0x86, 0, 0}));
  EXPECT_EQ(visible[1].address, (pci_address{8, 1, 0, 0}));
  const device_location found = locate_device(1);
  EXPECT_EQ(found.address, (pci_address{8, 1, 0, 0}));
  EXPECT_EQ(locate_device(2).address, std::nullopt);
  if (topology::system()->find(node_id(0)) != nullptr) {
    EXPECT_EQ(found.source, node_source::cuda);  // no such function is in this machine's sysfs
  }
  EXPECT_EQ(fake_cuda_contexts_made(0) + fake_cuda_contexts_made(1), 0U);
}

TEST_F(DeviceCuda, AForkedChildAsksItsFilesAgain) {
  ASSERT_EQ(init_driver(), 0);
  ASSERT_EQ(visible_devices().size(), 2U);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(visible_devices().size() == host_devices().size() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace numapool
