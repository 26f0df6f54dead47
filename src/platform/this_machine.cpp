// SPDX-License-Identifier: Apache-2.0
#include "platform/linux_memory.hpp"
#include "platform/linux_threads.hpp"
#include "platform/platform.hpp"

namespace numapool::platform {

// Never destroyed: buffers may be released by static destructors that run later than ours would.
platform& this_machine() noexcept {
  static platform& machine =
      *new platform{*files_below("").release(), *new linux_threads, *new linux_memory,
                    process_registrar(),        &process_nvml(),    &process_programs()};
  return machine;
}

}  // namespace numapool::platform
