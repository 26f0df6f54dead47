// SPDX-License-Identifier: Apache-2.0
//
// The error that a failing runtime call leaves pending on its thread, and copies from and to
// registered memory.

#include <algorithm>
#include <thread>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

void leave_error(const lab& asked) {
  const host_pages memory{asked, 1};
  if (asked.cuda.runtime.host_register(memory.page(0), 0, 1) == 0) {
    asked.skip("registering no bytes does not fail here");
  }
}

void add(experiments& list, const char* name, const char* question, const std::string& expected,
         unsigned int needs, void (*run)(const lab&)) {
  list.push_back({name, question, expected, needs, run});
}

// ---- Copies

constexpr int to_device = 1;
constexpr int to_host = 2;

enum class layout { inside_one, across_two, half_registered };

struct copy_case {
  const char* name;
  const char* question;
  layout registered;
  bool is_asynchronous;
  int direction;
};

// What is not claimed is told: numapool never copies across two registrations, because that "can
// be refused".
const copy_case copies[] = {
    {"inside_to_device", "copying from inside one registration", layout::inside_one, false,
     to_device},
    {"inside_to_host", "copying to inside one registration", layout::inside_one, false, to_host},
    {"inside_async", "the same asynchronously, to the device", layout::inside_one, true, to_device},
    {"across_to_device", "copying from two adjacent registrations", layout::across_two, false,
     to_device},
    {"across_to_host", "copying to two adjacent registrations", layout::across_two, false, to_host},
    {"across_async_to_device", "the same asynchronously, to the device", layout::across_two, true,
     to_device},
    {"across_async_to_host", "the same asynchronously, to the host", layout::across_two, true,
     to_host},
    {"half_to_device", "copying from memory of which the first half is registered",
     layout::half_registered, false, to_device},
    {"half_async_to_device", "the same asynchronously, to the device", layout::half_registered,
     true, to_device},
};

int copy_once(const libraries& cuda, const copy_case& one, char* host, void* device,
              std::size_t bytes) {
  void* to = one.direction == to_device ? device : host;
  const void* from = one.direction == to_device ? host : device;
  if (!one.is_asynchronous) {
    return cuda.more.memcpy(to, from, bytes, one.direction);
  }
  const int code = cuda.more.memcpy_async(to, from, bytes, one.direction, nullptr);
  return code != 0 ? code : cuda.more.device_synchronize();
}

void copy(const lab& asked, const copy_case& one) {
  const libraries& cuda = asked.cuda;
  if (cuda.more.malloc == nullptr || cuda.more.memcpy == nullptr ||
      cuda.more.memcpy_async == nullptr || cuda.more.device_synchronize == nullptr) {
    asked.skip("the runtime has no cudaMalloc and cudaMemcpy");
  }
  const host_pages memory{asked, 512};
  const host_pages other{asked, 512};
  const std::size_t half = memory.size() / 2;
  void* device = nullptr;
  asked.must(cuda.more.malloc(&device, memory.size()), "cudaMalloc");
  const bool is_whole = one.registered == layout::inside_one;
  asked.must(cuda.runtime.host_register(memory.page(0), is_whole ? memory.size() : half, 1),
             "registering");
  if (one.registered == layout::across_two) {
    asked.must(cuda.runtime.host_register(memory.page(256), half, 1), "registering the other half");
  }
  std::fill_n(memory.page(0), memory.size(), 'n');
  std::fill_n(other.page(0), other.size(), 'n');
  if (one.direction == to_host) {
    asked.must(cuda.more.memcpy(device, memory.page(0), half, to_device), "filling the device");
    asked.must(cuda.more.memcpy(static_cast<char*>(device) + half, other.page(0), half, to_device),
               "filling the device");
    std::fill_n(memory.page(0), memory.size(), 'x');
  }
  // From a quarter on, so that the copy lies across the middle.
  const std::size_t quarter = memory.size() / 4;
  char* host = memory.page(0) + quarter;
  const int code = copy_once(cuda, one, host, device, half);
  asked.saw(code);
  if (code != 0) {
    return;
  }
  if (one.direction == to_device) {
    asked.must(cuda.more.memcpy(other.page(0), device, half, to_host), "reading the device");
    host = other.page(0);
  }
  asked.saw(std::all_of(host, host + half, [](char letter) { return letter == 'n'; })
                ? "data right"
                : "DATA WRONG");
}

}  // namespace

experiments pending_error_experiments() {
  experiments list;
  const std::string failed = text_of(1);
  add(list, "pending.peek", "peeking twice after a failed registration", failed + ", " + failed,
      need_runtime, [](const lab& asked) {
        leave_error(asked);
        asked.saw(asked.cuda.runtime.peek_at_last_error());
        asked.saw(asked.cuda.runtime.peek_at_last_error());
      });
  add(list, "pending.take", "taking the error, and peeking after that", failed + ", 0",
      need_runtime, [](const lab& asked) {
        leave_error(asked);
        asked.saw(asked.cuda.runtime.get_last_error());
        asked.saw(asked.cuda.runtime.peek_at_last_error());
      });
  add(list, "pending.success", "peeking after a failed and then a successful call", failed,
      need_runtime, [](const lab& asked) {
        leave_error(asked);
        int count = 0;
        asked.must(asked.cuda.runtime.get_device_count(&count), "cudaGetDeviceCount");
        const host_pages memory{asked, 1};
        asked.must(asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1),
                   "registering");
        asked.saw(asked.cuda.runtime.peek_at_last_error());
      });
  add(list, "pending.other_thread", "peeking on another thread than the one that failed", "0",
      need_runtime, [](const lab& asked) {
        leave_error(asked);
        std::thread{[&] {
          asked.saw(asked.cuda.runtime.peek_at_last_error());
        }}.join();
      });
  add(list, "pending.unregister", "peeking after a failed unregistration", text_of(713),
      need_runtime, [](const lab& asked) {
        const host_pages memory{asked, 1};
        asked.cuda.runtime.host_unregister(memory.page(0));
        asked.saw(asked.cuda.runtime.peek_at_last_error());
      });
  add(list, "pending.driver", "peeking after a failure of the driver's own function", "0",
      need_runtime | need_driver, [](const lab& asked) {
        const door cuda{asked, side::driver};
        if (cuda.enroll(nullptr, page_bytes()) == 0) {
          asked.skip("registering null does not fail here");
        }
        asked.saw(asked.cuda.runtime.peek_at_last_error());
      });
  return list;
}

experiments copy_experiments() {
  experiments list;
  for (const copy_case& one : copies) {
    const bool is_claimed = one.registered == layout::inside_one;
    list.push_back({std::string{"copy."} + one.name, one.question,
                    is_claimed ? "0, data right" : "", need_runtime, [&one](const lab& asked) {
                      copy(asked, one);
                    }});
  }
  return list;
}

}  // namespace numapool::gpu_probe
