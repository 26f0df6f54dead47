// SPDX-License-Identifier: Apache-2.0
//
// Which calls initialise the driver and make contexts; how long registrations live.

#include <thread>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

constexpr unsigned int both = need_runtime | need_driver;

// "awake, no context" or "asleep, context on 0 1". Asking for contexts needs an initialised driver;
// initialising makes none.
std::string state_of_driver(const lab& asked) {
  const platform::driver_api& driver = asked.cuda.driver;
  int count = 0;
  std::string text =
      driver.device_get_count(&count) == platform::cuda_error_not_initialized ? "asleep" : "awake";
  asked.must(driver.init(0), "cuInit");
  asked.must(driver.device_get_count(&count), "cuDeviceGetCount");
  std::string active;
  for (int device = 0; device < count; ++device) {
    unsigned int flags = 0;
    int is_active = 0;
    asked.must(driver.primary_context_get_state(device, &flags, &is_active),
               "cuDevicePrimaryCtxGetState");
    active += is_active != 0 ? " " + std::to_string(device) : "";
  }
  return text + (active.empty() ? ", no context" : ", context on" + active);
}

struct call_case {
  const char* name;
  const char* question;
  const char* expected;
  void (*run)(const lab&);
};

void must_have_two(const lab& asked) {
  int count = 0;
  asked.must(asked.cuda.runtime.get_device_count(&count), "cudaGetDeviceCount");
  if (count < 2) {
    asked.skip("there is one device");
  }
}

const call_case calls[] = {
    {"nothing", "only opening the libraries", "asleep, no context",
     [](const lab&) {
     }},
    {"runtime_version", "cudaRuntimeGetVersion", "asleep, no context",
     [](const lab& asked) {
       int version = 0;
       asked.cuda.runtime.runtime_get_version(&version);
     }},
    {"driver_version", "cudaDriverGetVersion", "asleep, no context",
     [](const lab& asked) {
       int version = 0;
       asked.cuda.runtime.driver_get_version(&version);
     }},
    {"peek", "cudaPeekAtLastError", "asleep, no context",
     [](const lab& asked) {
       asked.cuda.runtime.peek_at_last_error();
     }},
    {"take", "cudaGetLastError", "asleep, no context",
     [](const lab& asked) {
       asked.cuda.runtime.get_last_error();
     }},
    {"get_device", "cudaGetDevice", "awake, no context",
     [](const lab& asked) {
       int device = 0;
       asked.cuda.runtime.get_device(&device);
     }},
    {"device_count", "cudaGetDeviceCount", "awake, no context",
     [](const lab& asked) {
       int count = 0;
       asked.cuda.runtime.get_device_count(&count);
     }},
    {"pci_bus_id", "cudaDeviceGetPCIBusId", "awake, no context",
     [](const lab& asked) {
       char text[32] = "";
       asked.cuda.runtime.device_get_pci_bus_id(text, sizeof text, 0);
     }},
    {"attribute", "cudaDeviceGetAttribute", "awake, no context",
     [](const lab& asked) {
       int value = 0;
       asked.cuda.runtime.device_get_attribute(&value, platform::cuda_attribute_host_numa_id, 0);
     }},
    {"set_device", "cudaSetDevice(0)", "awake, context on 0",
     [](const lab& asked) {
       asked.cuda.runtime.set_device(0);
     }},
    {"set_device_1", "cudaSetDevice(1)", "awake, context on 1",
     [](const lab& asked) {
       must_have_two(asked);
       asked.cuda.runtime.set_device(1);
     }},
    {"set_device_unknown", "cudaSetDevice of a device that there is not", "awake, no context",
     [](const lab& asked) {
       asked.cuda.runtime.set_device(999);
     }},
    {"register", "cudaHostRegister", "awake, context on 0",
     [](const lab& asked) {
       const host_pages memory{asked, 1};
       asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
     }},
    {"register_refused", "cudaHostRegister of no bytes", "awake, context on 0",
     [](const lab& asked) {
       const host_pages memory{asked, 1};
       asked.cuda.runtime.host_register(memory.page(0), 0, 1);
     }},
    {"unregister", "cudaHostUnregister of what is not registered", "awake, context on 0",
     [](const lab& asked) {
       const host_pages memory{asked, 1};
       asked.cuda.runtime.host_unregister(memory.page(0));
     }},
    {"register_on_1", "cudaSetDevice(1), then cudaHostRegister", "awake, context on 1",
     [](const lab& asked) {
       must_have_two(asked);
       const host_pages memory{asked, 1};
       asked.cuda.runtime.set_device(1);
       asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
     }},
    {"register_elsewhere", "cudaSetDevice(1), then cudaHostRegister on another thread",
     "awake, context on 0 1",
     [](const lab& asked) {
       must_have_two(asked);
       const host_pages memory{asked, 1};
       asked.cuda.runtime.set_device(1);
       std::thread{[&] {
         asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
       }}.join();
     }},
    {"unregister_elsewhere",
     "cudaSetDevice(1), cudaHostRegister, then cudaHostUnregister on another thread",
     "awake, context on 0 1",
     [](const lab& asked) {
       must_have_two(asked);
       const host_pages memory{asked, 1};
       asked.cuda.runtime.set_device(1);
       asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
       std::thread{[&] {
         asked.cuda.runtime.host_unregister(memory.page(0));
       }}.join();
     }},
    {"pushed", "cudaHostRegister under the primary context of device 1, pushed by the driver",
     "awake, context on 1",
     [](const lab& asked) {
       must_have_two(asked);
       platform::driver_context context = nullptr;
       asked.must(asked.cuda.driver.primary_context_retain(&context, 1),
                  "cuDevicePrimaryCtxRetain");
       asked.must(asked.cuda.driver.context_push(context), "cuCtxPushCurrent");
       const host_pages memory{asked, 1};
       asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
     }},
};

void after_call(const lab& asked, const call_case& one) {
  int count = 0;
  const int before = asked.cuda.driver.device_get_count(&count);
  if (before != platform::cuda_error_not_initialized) {
    asked.skip("cuDeviceGetCount answers " + text_of(before) + " before everything");
  }
  std::thread{[&] {
    one.run(asked);
  }}.join();
  asked.saw(state_of_driver(asked));
}

// ---- How long contexts and registrations live

void release_last(const lab& asked) {
  const platform::driver_api& driver = asked.cuda.driver;
  const door cuda{asked, side::driver};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  platform::driver_context context = nullptr;
  asked.must(driver.context_pop(&context), "cuCtxPopCurrent");
  asked.must(driver.primary_context_release(0), "cuDevicePrimaryCtxRelease");
  asked.saw(state_of_driver(asked));
  const door again{asked, side::driver};
  asked.saw("unregister " + text_of(again.remove(memory.page(0))));
  asked.saw("anew " + text_of(again.enroll(memory.page(0), memory.size())));
}

void release_current(const lab& asked) {
  const door cuda{asked, side::driver};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  asked.must(asked.cuda.driver.primary_context_release(0), "cuDevicePrimaryCtxRelease");
  asked.saw(cuda.remove(memory.page(0)));
}

void release_borrowed(const lab& asked) {
  const door cuda{asked, side::runtime};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  platform::driver_context context = nullptr;
  asked.must(asked.cuda.driver.primary_context_retain(&context, 0), "cuDevicePrimaryCtxRetain");
  asked.must(asked.cuda.driver.primary_context_release(0), "cuDevicePrimaryCtxRelease");
  asked.saw(state_of_driver(asked));
  asked.saw("unregister " + text_of(cuda.remove(memory.page(0))));
}

void reset_device(const lab& asked) {
  if (asked.cuda.more.device_reset == nullptr) {
    asked.skip("the runtime has no cudaDeviceReset");
  }
  const door cuda{asked, side::runtime};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  asked.must(asked.cuda.more.device_reset(), "cudaDeviceReset");
  asked.saw("unregister " + text_of(cuda.remove(memory.page(0))));
  asked.saw("anew " + text_of(cuda.enroll(memory.page(0), memory.size())));
}

void release_without_reference(const lab& asked) {
  asked.must(asked.cuda.driver.init(0), "cuInit");
  asked.saw(asked.cuda.driver.primary_context_release(0));
}

void current_after_set_device(const lab& asked) {
  must_have_two(asked);
  platform::driver_context context = nullptr;
  asked.must(asked.cuda.driver.primary_context_retain(&context, 1), "cuDevicePrimaryCtxRetain");
  asked.must(asked.cuda.driver.context_push(context), "cuCtxPushCurrent");
  int device = -1;
  asked.must(asked.cuda.runtime.get_device(&device), "cudaGetDevice");
  asked.saw("device " + std::to_string(device));
  asked.must(asked.cuda.runtime.set_device(0), "cudaSetDevice");
  asked.must(asked.cuda.driver.context_pop(&context), "cuCtxPopCurrent");
  asked.saw("then " + text_of(asked.cuda.driver.context_pop(&context)));
}

}  // namespace

experiments context_experiments() {
  experiments list;
  for (const call_case& one : calls) {
    list.push_back(
        {std::string{"context."} + one.name,
         std::string{"the driver and its contexts after, on a fresh thread: "} + one.question,
         one.expected, both, [&one](const lab& asked) {
           after_call(asked, one);
         }});
  }
  list.push_back({"context.replaced",
                  "the runtime's device under a pushed context of device 1, and the thread's stack "
                  "of contexts after cudaSetDevice(0) and one pop",
                  "device 1, then " + text_of(201), both, current_after_set_device});
  return list;
}

experiments lifetime_experiments() {
  experiments list;
  const std::string gone = "unregister " + text_of(713) + ", anew 0";
  list.push_back({"lifetime.last_release",
                  "a registration after the last reference on the primary context was released",
                  "awake, no context, " + gone, need_driver, release_last});
  list.push_back({"lifetime.released_current",
                  "unregistering while the released primary context still is current", text_of(709),
                  need_driver, release_current});
  list.push_back({"lifetime.borrowed",
                  "the runtime's registration after the driver retained and released its context",
                  "awake, context on 0, unregister 0", both, release_borrowed});
  list.push_back({"lifetime.too_many_releases", "releasing a primary context that nobody retained",
                  text_of(201), need_driver, release_without_reference});
  list.push_back(
      {"lifetime.reset", "a registration after cudaDeviceReset", gone, need_runtime, reset_device});
  return list;
}

}  // namespace numapool::gpu_probe
