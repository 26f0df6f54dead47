// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the CUDA libraries at run time. Loading one initialises nothing: no cuInit, no context, no
// device is opened, so a process that only looked can still fork. A library that was loaded is
// never closed: handles may outlive every pool, and CUDA does not expect to be unloaded. Threads:
// cuda_libraries is safe to share; the functions are safe.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "platform/cuda_api.hpp"

namespace numapool::platform {

// Where to look. The defaults are the order of the design; tests narrow it.
struct cuda_search {
  bool in_process = true;  // take a runtime that the process has already loaded or was linked with,
                           // before all others
  std::string override_name;  // NUMAPOOL_CUDART: a path or soname. If set, no other file is tried,
                              // and no driver alone
  std::vector<std::string> runtime_names = {"libcudart.so.13", "libcudart.so.12",
                                            "libcudart.so.11.0"};
  std::string driver_name = "libcuda.so.1";  // empty: no driver is looked for

  // The defaults with NUMAPOOL_CUDART; ignored, as the loader's own variables are, in a set-user-id
  // process.
  static cuda_search from_environment();
};

enum class library_source { in_process, override_name, search };

template <class Api>
struct cuda_library {
  Api call;          // every function is there
  std::string path;  // as the dynamic linker knows it
  int version =
      0;  // the runtime's own, 13000 for 13.0; 0 for a driver, which is asked when it is probed
  library_source source = library_source::search;
};
using runtime_library = cuda_library<runtime_api>;
using driver_library = cuda_library<driver_api>;

// A library that has every symbol we call, or null and, for people, why not: each name that was
// tried with its reason.
template <class Library>
struct found_library {
  std::unique_ptr<const Library> library;
  std::string reason;
};
[[nodiscard]] found_library<runtime_library> find_runtime(const cuda_search& search);
[[nodiscard]] found_library<driver_library> find_driver(const cuda_search& search);
// The driver that this process has loaded already; null when it has none. Loads nothing.
[[nodiscard]] std::unique_ptr<const driver_library> find_driver_in_process(
    const cuda_search& search);

// Both libraries, each looked for until it is found once, then kept. A failure is not kept: the
// next call looks again, since a container can gain its driver, and a process its runtime, while we
// live.
class cuda_libraries {
 public:
  explicit cuda_libraries(cuda_search search) : search_{std::move(search)} {}

  // Null when not found; `reason` then says why. The pointer is good as long as this object.
  // Blocks: while another thread looks. Cost after success: one lock.
  [[nodiscard]] const runtime_library* runtime(std::string& reason);
  [[nodiscard]] const driver_library* driver(std::string& reason);
  // Only if somebody has loaded it already; loads nothing.
  [[nodiscard]] const driver_library* driver_in_process();

  /// exit() has run the destructors of what was loaded before: a runtime without a driver then dies
  /// of the next question (seen with 13.0). Known from the first library on that was found.
  [[nodiscard]] static bool has_exit_begun() noexcept;

  [[nodiscard]] const cuda_search& search() const noexcept { return search_; }

 private:
  const cuda_search search_;
  base::mutex
      mutex_;  // taken last: nothing is locked while it is held, except by the dynamic linker
  std::unique_ptr<const runtime_library> runtime_
      NUMAPOOL_GUARDED_BY(mutex_);  // what it points to is constant
  std::unique_ptr<const driver_library> driver_ NUMAPOOL_GUARDED_BY(mutex_);
};

}  // namespace numapool::platform
