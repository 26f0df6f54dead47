// SPDX-License-Identifier: Apache-2.0
//
// What a forked child may do with CUDA.

#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

// What `work` returns in a forked child, as text; a child that dies or hangs is told too.
std::string in_child(const lab& asked, const std::function<int()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) {
    asked.skip("there is no pipe");
  }
  const pid_t child = ::fork();
  if (child < 0) {
    asked.skip("there is no fork");
  }
  if (child == 0) {
    const int code = work();
    const auto written = ::write(ends[1], &code, sizeof code);
    ::_exit(written == sizeof code ? 0 : 1);
  }
  ::close(ends[1]);
  constexpr int limit_ms = 8000;
  pollfd waiting{ends[0], POLLIN, 0};
  if (::poll(&waiting, 1, limit_ms) == 0) {
    ::kill(child, SIGKILL);
    return "hangs";
  }
  int code = 0;
  const bool has_answered = ::read(ends[0], &code, sizeof code) == sizeof code;
  int status = 0;
  ::waitpid(child, &status, 0);
  if (has_answered) {
    return text_of(code);
  }
  return WIFSIGNALED(status) ? std::string{"dies of "} + ::strsignal(WTERMSIG(status))
                             : "is silent";
}

int register_page(const lab& asked) {
  const host_pages memory{asked, 1};
  return asked.cuda.runtime.host_register(memory.page(0), memory.size(), 1);
}

struct before_fork {
  const char* name;
  const char* question;
  int expected;
  void (*run)(const lab&);
};

const before_fork befores[] = {
    {"nothing", "only opening the libraries", 0,
     [](const lab&) {
     }},
    {"runtime_version", "cudaRuntimeGetVersion", 0,
     [](const lab& asked) {
       int version = 0;
       asked.cuda.runtime.runtime_get_version(&version);
     }},
    {"driver_version", "cudaDriverGetVersion", 0,
     [](const lab& asked) {
       int version = 0;
       asked.cuda.runtime.driver_get_version(&version);
     }},
    {"peek", "cudaPeekAtLastError", 0,
     [](const lab& asked) {
       asked.cuda.runtime.peek_at_last_error();
     }},
    {"get_device", "cudaGetDevice", 3,
     [](const lab& asked) {
       int device = 0;
       asked.cuda.runtime.get_device(&device);
     }},
    {"device_count", "cudaGetDeviceCount", 3,
     [](const lab& asked) {
       int count = 0;
       asked.cuda.runtime.get_device_count(&count);
     }},
    {"pci_bus_id", "cudaDeviceGetPCIBusId", 3,
     [](const lab& asked) {
       char text[32] = "";
       asked.cuda.runtime.device_get_pci_bus_id(text, sizeof text, 0);
     }},
    {"attribute", "cudaDeviceGetAttribute", 3,
     [](const lab& asked) {
       int value = 0;
       asked.cuda.runtime.device_get_attribute(&value, platform::cuda_attribute_host_numa_id, 0);
     }},
    {"register", "cudaHostRegister", 3,
     [](const lab& asked) {
       register_page(asked);
     }},
};

void after_nvml(const lab& asked) {
  const platform::nvml_api& nvml = asked.cuda.nvml;
  if (const int code = nvml.init(); code != 0) {
    asked.skip("nvmlInit answers " + nvml_text_of(code));
  }
  unsigned int count = 0;
  nvml.device_count(&count);
  asked.saw(in_child(asked, [&] { return register_page(asked); }));
}

void after_init(const lab& asked, const std::function<int()>& work) {
  asked.must(asked.cuda.driver.init(0), "cuInit");
  asked.saw(in_child(asked, work));
}

void inherited_registration(const lab& asked, side which) {
  const door cuda{asked, which};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  asked.saw("child " + in_child(asked, [&] { return cuda.remove(memory.page(0)); }));
  asked.saw("parent " + text_of(cuda.remove(memory.page(0))));
}

}  // namespace

experiments fork_experiments() {
  experiments list;
  for (const before_fork& one : befores) {
    list.push_back({std::string{"fork."} + one.name,
                    std::string{"cudaHostRegister in a child forked after "} + one.question,
                    text_of(one.expected), need_runtime, [&one](const lab& asked) {
                      one.run(asked);
                      asked.saw(in_child(asked, [&] { return register_page(asked); }));
                    }});
  }
  list.push_back({"fork.nvml", "cudaHostRegister in a child forked after nvmlInit", "0",
                  need_runtime | need_nvml, after_nvml});
  const std::string refused = text_of(platform::cuda_error_not_initialized);
  list.push_back({"fork.init_then_count", "cuDeviceGetCount in a child forked after cuInit",
                  refused, need_driver, [](const lab& asked) {
                    int count = 0;
                    after_init(asked, [&] { return asked.cuda.driver.device_get_count(&count); });
                  }});
  list.push_back({"fork.init_then_init", "cuInit in a child forked after cuInit", refused,
                  need_driver, [](const lab& asked) {
                    after_init(asked, [&] { return asked.cuda.driver.init(0); });
                  }});
  list.push_back({"fork.init_then_runtime", "cudaGetDeviceCount in a child forked after cuInit",
                  refused, need_runtime | need_driver, [](const lab& asked) {
                    int count = 0;
                    after_init(asked, [&] { return asked.cuda.runtime.get_device_count(&count); });
                  }});
  const std::string kept = "child " + refused + ", parent 0";
  list.push_back({"fork.runtime_unregister",
                  "a forked child unregistering what its parent registered, then the parent", kept,
                  need_runtime, [](const lab& asked) {
                    inherited_registration(asked, side::runtime);
                  }});
  list.push_back({"fork.driver_unregister", "the same through the driver", kept, need_driver,
                  [](const lab& asked) {
                    inherited_registration(asked, side::driver);
                  }});
  return list;
}

}  // namespace numapool::gpu_probe
