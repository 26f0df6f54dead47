// SPDX-License-Identifier: Apache-2.0
//
// What registering and unregistering answer, asked through the runtime and through the driver.

#include <thread>

#include "gpu/doors.hpp"
#include "gpu/experiment.hpp"

namespace numapool::gpu_probe {
namespace {

using side = door::side;

struct registration_case {
  const char* name;
  const char* question;
  int expected;
  void (*run)(const lab&, const door&);
};

const registration_case registering[] = {
    {"aligned", "registering whole pages", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"unaligned_start", "registering from the middle of a page", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.saw(cuda.enroll(memory.page(1) + 128, page_bytes()));
     }},
    {"unaligned_length", "registering a page and 100 bytes", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.saw(cuda.enroll(memory.page(1), page_bytes() + 100));
     }},
    {"again", "registering the same range again", 712,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering once");
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"overlap", "registering a range that begins in a registered one and ends behind it", 712,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 6};
       asked.must(cuda.enroll(memory.page(0), 4 * page_bytes()), "registering once");
       asked.saw(cuda.enroll(memory.page(2), 4 * page_bytes()));
     }},
    {"inside", "registering a range inside a registered one", 712,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering once");
       asked.saw(cuda.enroll(memory.page(1), page_bytes()));
     }},
    {"around", "registering a range that has a registered one inside", 712,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(1), page_bytes()), "registering once");
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"adjacent", "registering the pages right behind a registered range", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), 2 * page_bytes()), "registering once");
       asked.saw(cuda.enroll(memory.page(2), 2 * page_bytes()));
     }},
    {"shared_page", "registering other bytes of a page of which some are registered", 712,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 2};
       asked.must(cuda.enroll(memory.page(0), 256), "registering once");
       asked.saw(cuda.enroll(memory.page(0) + 1024, 256));
     }},
    {"zero_bytes", "registering no bytes", 1,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 1};
       asked.saw(cuda.enroll(memory.page(0), 0));
     }},
    {"null", "registering a null address", 1,
     [](const lab& asked, const door& cuda) {
       asked.saw(cuda.enroll(nullptr, page_bytes()));
     }},
    {"unmapped", "registering pages that are not mapped", 1,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       memory.unmap();
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"half_mapped", "registering pages of which the last is not mapped", 1,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       ::munmap(memory.page(3), page_bytes());
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"read_only", "registering pages that may not be written", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4, PROT_READ};
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
    {"unknown_flag", "registering with a flag that there is not", 1,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 1};
       asked.saw(cuda.enroll(memory.page(0), memory.size(), 0x100));
     }},
};

const registration_case unregistering[] = {
    {"removed", "unregistering what is registered", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
       asked.saw(cuda.remove(memory.page(0)));
     }},
    {"removed_unaligned", "unregistering the address from the middle of a page as registered", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(1) + 128, page_bytes()), "registering");
       asked.saw(cuda.remove(memory.page(1) + 128));
     }},
    {"removed_page_start", "unregistering the start of the page where a range began in its middle",
     713,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(1) + 128, page_bytes()), "registering");
       asked.saw(cuda.remove(memory.page(1)));
     }},
    {"never_registered", "unregistering what never was registered", 713,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 1};
       asked.saw(cuda.remove(memory.page(0)));
     }},
    {"not_the_base", "unregistering an address inside a registered range", 713,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
       asked.saw(cuda.remove(memory.page(1)));
     }},
    {"removed_twice", "unregistering twice", 713,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
       asked.must(cuda.remove(memory.page(0)), "unregistering once");
       asked.saw(cuda.remove(memory.page(0)));
     }},
    {"removed_null", "unregistering a null address", 713,
     [](const lab& asked, const door& cuda) {
       asked.saw(cuda.remove(nullptr));
     }},
    {"removed_unmapped", "unregistering registered pages after they were unmapped", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
       memory.unmap();
       asked.saw(cuda.remove(memory.page(0)));
     }},
    {"anew", "registering anew what was unregistered", 0,
     [](const lab& asked, const door& cuda) {
       const host_pages memory{asked, 4};
       asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
       asked.must(cuda.remove(memory.page(0)), "unregistering");
       asked.saw(cuda.enroll(memory.page(0), memory.size()));
     }},
};

void add_pointers(experiments& list, const char* topic, side which, unsigned int needs) {
  const auto ask = [which](std::size_t offset) {
    return [which, offset](const lab& asked) {
      const door cuda{asked, which};
      const host_pages memory{asked, 4};
      asked.must(cuda.enroll(memory.page(0), memory.size(),
                             platform::cuda_register_portable | platform::cuda_register_mapped),
                 "registering");
      unsigned long long pointer = 0;
      char* address = memory.page(0) + offset;
      const int code = cuda.device_pointer(address, pointer);
      asked.saw(code);
      if (code == 0) {
        asked.saw(pointer == reinterpret_cast<std::size_t>(address) ? "the host's address"
                                                                    : "another address");
      }
    };
  };
  list.push_back({std::string{topic} + ".pointer", "the device pointer of a registered range",
                  "0, the host's address", needs, ask(0)});
  list.push_back({std::string{topic} + ".pointer_inside",
                  "the device pointer of an address inside a registered range", text_of(1), needs,
                  ask(page_bytes() + 16)});
}

void add_side(experiments& list, const char* topic, side which, unsigned int needs) {
  const auto add = [&](const registration_case& one) {
    list.push_back({std::string{topic} + "." + one.name, one.question, text_of(one.expected), needs,
                    [which, run = one.run](const lab& asked) {
                      const door cuda{asked, which};
                      run(asked, cuda);
                    }});
  };
  for (const registration_case& one : registering) {
    add(one);
  }
  for (const registration_case& one : unregistering) {
    add(one);
  }
  add_pointers(list, topic, which, needs);
}

// ---- Both sides and several threads

void crossed(const lab& asked, side first, side second) {
  const door registers{asked, first};
  const host_pages memory{asked, 4};
  asked.must(registers.enroll(memory.page(0), memory.size()), "registering");
  const door unregisters{asked, second};
  asked.saw(unregisters.enroll(memory.page(0), memory.size()));
  asked.saw(unregisters.remove(memory.page(0)));
}

void without_context(const lab& asked) {
  const door cuda{asked, side::driver};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  platform::driver_context popped = nullptr;
  asked.must(asked.cuda.driver.context_pop(&popped), "cuCtxPopCurrent");
  asked.saw("without " + text_of(cuda.remove(memory.page(0))));
  asked.must(asked.cuda.driver.context_push(popped), "cuCtxPushCurrent");
  asked.saw("with " + text_of(cuda.remove(memory.page(0))));
}

void on_fresh_thread(const lab& asked, side which) {
  const door cuda{asked, which};
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  std::thread{[&] {
    asked.saw(cuda.remove(memory.page(0)));
  }}.join();
}

void register_without_context(const lab& asked) {
  asked.must(asked.cuda.driver.init(0), "cuInit");
  const host_pages memory{asked, 4};
  asked.saw(asked.cuda.driver.host_register(memory.page(0), memory.size(), 1));
}

void unregister_on_other_device(const lab& asked) {
  const door cuda{asked, side::driver};
  int count = 0;
  asked.must(asked.cuda.driver.device_get_count(&count), "cuDeviceGetCount");
  if (count < 2) {
    asked.skip("there is one device");
  }
  const host_pages memory{asked, 4};
  asked.must(cuda.enroll(memory.page(0), memory.size()), "registering");
  platform::driver_context other = nullptr;
  asked.must(asked.cuda.driver.primary_context_retain(&other, 1), "cuDevicePrimaryCtxRetain");
  asked.must(asked.cuda.driver.context_push(other), "cuCtxPushCurrent");
  asked.saw(cuda.remove(memory.page(0)));
}

}  // namespace

experiments registration_experiments() {
  experiments list;
  constexpr unsigned int both = need_runtime | need_driver;
  add_side(list, "runtime", side::runtime, need_runtime);
  add_side(list, "driver", side::driver, need_driver);
  list.push_back({"crossed.runtime_first",
                  "the driver registering what the runtime registered, and unregistering it",
                  text_of(712) + ", 0", both, [](const lab& asked) {
                    crossed(asked, side::runtime, side::driver);
                  }});
  list.push_back({"crossed.driver_first",
                  "the runtime registering what the driver registered, and unregistering it",
                  text_of(712) + ", 0", both, [](const lab& asked) {
                    crossed(asked, side::driver, side::runtime);
                  }});
  list.push_back({"threads.runtime", "the runtime unregistering on a thread that is new to CUDA",
                  "0", need_runtime, [](const lab& asked) {
                    on_fresh_thread(asked, side::runtime);
                  }});
  list.push_back({"threads.driver", "the driver unregistering on a thread without a context",
                  text_of(201), need_driver, [](const lab& asked) {
                    on_fresh_thread(asked, side::driver);
                  }});
  list.push_back({"no_context.register", "the driver registering without a current context",
                  text_of(201), need_driver, register_without_context});
  list.push_back({"no_context.unregister",
                  "the driver unregistering without a current context, and then with one",
                  "without " + text_of(201) + ", with 0", need_driver, without_context});
  list.push_back({"other_device.unregister",
                  "unregistering while the context of another device is current", "0", need_driver,
                  unregister_on_other_device});
  return list;
}

}  // namespace numapool::gpu_probe
