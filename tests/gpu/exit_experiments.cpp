// SPDX-License-Identifier: Apache-2.0
//
// Unregistering while the process ends, registering under a small limit of locked memory, and what
// a runtime without a driver answers.

#include <grp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

// ---- The end of the process

// What is unregistered at the end; the handlers have no other way to know.
struct last_wish {
  const lab* asked = nullptr;
  const door* cuda = nullptr;
  void* address = nullptr;

  void carry_out() const {
    if (cuda != nullptr) {
      asked->saw(cuda->remove(address));
    }
  }
};

last_wish for_handler;

// Made before main(), so destroyed after every handler that was installed later.
struct static_object {
  last_wish wish;
  ~static_object() { wish.carry_out(); }
} the_static_object;

enum class moment { handler_before_cuda, handler_after_cuda, static_object };

[[noreturn]] void end_process(const lab& asked, side which, moment when) {
  if (when == moment::handler_before_cuda) {
    std::atexit([] { for_handler.carry_out(); });
  }
  const door cuda{asked, which};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  if (when == moment::handler_after_cuda) {
    std::atexit([] { for_handler.carry_out(); });
  }
  last_wish& wish = when == moment::static_object ? the_static_object.wish : for_handler;
  wish = {&asked, &cuda, memory.page(0)};
  std::exit(0);  // destroys nothing on this stack
}

void add_ends(experiments& list, const char* topic, side which, unsigned int needs) {
  const auto add = [&](const char* name, const char* question, int expected, moment when) {
    list.push_back({std::string{"exit."} + topic + "_" + name, question, text_of(expected), needs,
                    [which, when](const lab& asked) {
                      end_process(asked, which, when);
                    }});
  };
  add("late_handler", "unregistering in an exit handler installed after the first use of CUDA", 0,
      moment::handler_after_cuda);
  add("early_handler", "unregistering in an exit handler installed before the first use of CUDA",
      platform::cuda_error_unloading, moment::handler_before_cuda);
  add("static_object", "unregistering in the destructor of the program's static object",
      platform::cuda_error_unloading, moment::static_object);
}

// ---- Limits

void register_under_limit(const lab& asked, bool as_nobody) {
  if (as_nobody && ::geteuid() != 0) {
    asked.skip("only root can become nobody");
  }
  constexpr rlim_t limit = 64 << 10;
  const rlimit small{limit, limit};
  if (::setrlimit(RLIMIT_MEMLOCK, &small) != 0) {
    asked.skip("the limit cannot be set");
  }
  constexpr unsigned int nobody = 65534;
  if (as_nobody &&
      (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0)) {
    asked.skip("this process cannot become nobody");
  }
  const door cuda = any_door(asked);
  const host_pages memory{asked, 4096};
  asked.saw(cuda.enroll(memory.page(0), memory.size()));
}

// ---- A runtime that has no driver

void add_driverless(experiments& list, const char* name, const char* question,
                    const std::string& expected, void (*run)(const lab&)) {
  list.push_back({std::string{"driverless."} + name, question, expected, need_missing_driver, run});
}

}  // namespace

experiments exit_experiments() {
  experiments list;
  add_ends(list, "runtime", side::runtime, need_runtime);
  add_ends(list, "driver", side::driver, need_driver);
  list.push_back({"limit.memlock", "registering 16 MiB where 64 KiB may be locked", "0",
                  need_either, [](const lab& asked) {
                    register_under_limit(asked, false);
                  }});
  list.push_back({"limit.memlock_nobody", "the same without privileges", "0", need_either,
                  [](const lab& asked) {
                    register_under_limit(asked, true);
                  }});
  return list;
}

experiments driverless_experiments() {
  experiments list;
  const std::string missing = text_of(platform::cuda_error_insufficient_driver);
  add_driverless(list, "register", "cudaHostRegister", missing, [](const lab& asked) {
    const host_pages memory{asked, 1};
    asked.saw(asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1));
  });
  add_driverless(list, "unregister", "cudaHostUnregister", missing, [](const lab& asked) {
    const host_pages memory{asked, 1};
    asked.saw(asked.cuda.runtime.host_unregister(memory.page(0)));
  });
  add_driverless(list, "get_device", "cudaGetDevice", missing, [](const lab& asked) {
    int device = 0;
    asked.saw(asked.cuda.runtime.get_device(&device));
  });
  add_driverless(list, "device_count", "cudaGetDeviceCount", missing, [](const lab& asked) {
    int count = 0;
    asked.saw(asked.cuda.runtime.get_device_count(&count));
  });
  add_driverless(list, "driver_version", "cudaDriverGetVersion", "0, version 0",
                 [](const lab& asked) {
                   int version = -1;
                   asked.saw(asked.cuda.runtime.driver_get_version(&version));
                   asked.saw("version " + std::to_string(version));
                 });
  add_driverless(list, "take_twice", "taking the pending error twice after a failure",
                 missing + ", " + missing, [](const lab& asked) {
                   int count = 0;
                   asked.cuda.runtime.get_device_count(&count);
                   asked.saw(asked.cuda.runtime.get_last_error());
                   asked.saw(asked.cuda.runtime.get_last_error());
                 });
  add_driverless(list, "peek_first", "peeking at the pending error before any other call", missing,
                 [](const lab& asked) { asked.saw(asked.cuda.runtime.peek_at_last_error()); });
  add_driverless(list, "other_thread", "peeking on a thread that never called anything", missing,
                 [](const lab& asked) {
                   int count = 0;
                   asked.cuda.runtime.get_device_count(&count);
                   std::thread{[&] {
                     asked.saw(asked.cuda.runtime.peek_at_last_error());
                   }}.join();
                 });
  return list;
}

}  // namespace numapool::gpu_probe
