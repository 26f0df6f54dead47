// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs programs on Linux. Threads: linux_programs is safe to share; runs do not wait for each
// other.

#include <sys/types.h>

#include <list>
#include <string>
#include <vector>

#include <boost/system/error_code.hpp>

#include "base/mutex.hpp"
#include "platform/programs.hpp"

namespace numapool::platform {

// How the end of a program is noticed. Where the kernel has no pidfd, or a sandbox denies it,
// polling is taken anyway.
enum class exit_watch { pidfd, polling };

// A child that has been killed and not been reaped yet.
struct unreaped_child {
  pid_t pid = -1;
  int pidfd = -1;  // -1: none. Owned
};

class linux_programs final : public programs {
 public:
  explicit linux_programs(exit_watch watch = exit_watch::pidfd) noexcept : watch_{watch} {}
  ~linux_programs() override;

  boost::system::error_code run(const std::vector<std::string>& argv, const program_limits& limits,
                                program_answer& answer) noexcept override;

 private:
  // Reaps what has died of the stuck ones, without waiting.
  void reap_stuck() noexcept;

  const exit_watch watch_;
  base::mutex mutex_;  // a leaf
  // Killed, but stuck in the kernel when their time was over. Each later run() looks after them.
  std::list<unreaped_child> stuck_ NUMAPOOL_GUARDED_BY(mutex_);
};

}  // namespace numapool::platform
