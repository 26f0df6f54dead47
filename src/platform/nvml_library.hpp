// SPDX-License-Identifier: Apache-2.0
#pragma once

// NVML, found at run time. Threads: nvml_library is safe to share.

#include <memory>
#include <string>
#include <utility>

#include <boost/system/error_code.hpp>

#include "base/mutex.hpp"
#include "platform/nvml.hpp"
#include "platform/nvml_api.hpp"

namespace numapool::platform {

// The library is never closed. NVML itself is initialised for each call and shut down after it:
//   * an initialised NVML keeps the GPUs' device files open, which stops a driver's unloading, a
//     GPU's reset and a change of MIG mode for as long as this process lives; we only want to look
//   * what was plugged in, or cut into MIG devices, since the last call is then seen
//   * a forked child inherits nothing of it
// NVML counts initialisations, so ours never ends another's use; and where another shuts down once
// too often, so that ours is ended in the middle, the call begins again, once.
class nvml_library final : public nvml {
 public:
  // A path or soname.
  explicit nvml_library(std::string name) : name_{std::move(name)} {}

  boost::system::error_code devices(std::vector<nvml_device>& out) noexcept override;

 private:
  // What the library offers; looked for until it is found once.
  boost::system::error_code load(const nvml_api*& api);

  const std::string name_;
  base::mutex mutex_;  // nothing is locked while it is held, except by the dynamic linker
  std::unique_ptr<const nvml_api> api_
      NUMAPOOL_GUARDED_BY(mutex_);  // what it points to is constant
};

}  // namespace numapool::platform
