// SPDX-License-Identifier: Apache-2.0

// Goal: a buffer for a device is on that device's node, through the whole chain: ordinal, PCI
// address, sysfs, node, workers, pages.
// Method: guests with PCI functions that have NVIDIA's vendor and class, on nodes in an order that
// is not the nodes'; ordinals by sysfs alone, by CUDA_VISIBLE_DEVICES with NVML, and by CUDA.

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/worker_pool.hpp>

#include "fake_cuda_control.h"
#include "fake_nvml_control.h"
#include "lab/scenarios/guest.hpp"

namespace numapool::lab {
namespace {

void expect_buffers_on_their_nodes(const std::vector<guest_gpu>& by_ordinal, node_source source,
                                   pin_policy pin) {
  worker_pool pool;
  for (std::size_t i = 0; i < by_ordinal.size(); ++i) {
    SCOPED_TRACE("device " + std::to_string(i) + " at " + by_ordinal[i].address);
    request what;
    what.size_bytes = 8 * mib;
    what.device = static_cast<int>(i);
    what.bind = bind_policy::strict;
    what.verify = verify_policy::full;
    what.pin = pin;
    const buffer held = pool.allocate(what);
    EXPECT_EQ(held.node_source(), source);
    EXPECT_EQ(static_cast<int>(held.node_requested().value()), by_ordinal[i].node);
    expect_all_on(held, by_ordinal[i].node);
    EXPECT_EQ(to_string(locate_device(static_cast<int>(i)).address.value()), by_ordinal[i].address);
  }
}

// As an application beside us would have done: only then is CUDA's word taken.
void load_and_initialise_cuda() {
  void* const driver = ::dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << ::dlerror();
  ASSERT_EQ(reinterpret_cast<int (*)(unsigned int)>(::dlsym(driver, "cuInit"))(0), 0);
}

// As NVML prints an address: eight digits of domain.
std::string as_nvml(const std::string& address) {
  return "0000" + address;
}

TEST(Devices, AreFoundBySysfsAlone) {
  const std::vector<guest_gpu> gpus = read_gpus();
  expect_order_to_tell(gpus);
  expect_buffers_on_their_nodes(gpus, node_source::sysfs, pin_policy::none);
}

TEST(Devices, AreFoundByVisibleIdsThroughNvml) {
  std::vector<guest_gpu> gpus = read_gpus();
  std::string devices;
  std::string visible;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string uuid = "GPU-" + std::to_string(i) + "0000000-0000-0000-0000-000000000000";
    devices += (i == 0 ? "" : "|") + as_nvml(gpus[i].address) + "=" + uuid;
    visible = uuid.substr(0, 6) + (visible.empty() ? "" : ",") + visible;  // the last one first
  }
  ::setenv("NUMAPOOL_NVML", FAKE_NVML, 1);
  ::setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
  fake_nvml_set_devices(devices.c_str());
  std::reverse(gpus.begin(), gpus.end());
  expect_buffers_on_their_nodes(gpus, node_source::sysfs, pin_policy::none);
}

// CUDA has its own order here, so only its word tells which GPU an ordinal is; and it pins.
TEST(Devices, AreFoundAndPinnedByCuda) {
  std::vector<guest_gpu> gpus = read_gpus();
  std::rotate(gpus.begin(), gpus.begin() + 1, gpus.end());
  std::vector<fake_cuda_device> devices;
  for (const guest_gpu& gpu : gpus) {
    devices.push_back({gpu.address.c_str(), -1});
  }
  ::setenv("NUMAPOOL_CUDART", FAKE_CUDART, 1);
  fake_cuda_set_devices(devices.data(), devices.size());
  load_and_initialise_cuda();
  expect_buffers_on_their_nodes(gpus, node_source::sysfs, pin_policy::cuda);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    EXPECT_EQ(fake_cuda_contexts_made(static_cast<int>(i)), 1U) << "device " << i;
  }
  EXPECT_EQ(fake_cuda_registered_ranges(nullptr, 0), 0U) << "all were given back";
}

}  // namespace
}  // namespace numapool::lab
