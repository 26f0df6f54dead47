// SPDX-License-Identifier: Apache-2.0
#include "platform/linux_memory.hpp"
#include "platform/linux_threads.hpp"
#include "platform/platform.hpp"

namespace numapool::platform {

namespace {

platform& make_this_machine() {
  return *new platform{*files_below("").release(),
                       *new linux_threads,
                       *new linux_memory,
                       process_registrar(),
                       &process_nvml(),
                       &process_programs(),
                       true};
}

}  // namespace

// Never destroyed: buffers may be released by static destructors that run later than ours would.
// Without memory for even this the process ends here: there is no handle yet that could say it.
platform& this_machine() noexcept {
  static platform& machine = make_this_machine();
  return machine;
}

}  // namespace numapool::platform
