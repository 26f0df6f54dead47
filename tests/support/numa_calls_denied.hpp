// SPDX-License-Identifier: Apache-2.0
#pragma once

// A seccomp filter that denies the NUMA calls to this process for good, as containers do.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>

namespace numapool::test {

/// mbind, set_mempolicy, get_mempolicy and move_pages answer `error_number` from now on; false
/// where the kernel takes no filter. The number of a call is compared with each of the four;
/// anything else is allowed. Architectures are not mixed here.
[[nodiscard]] inline bool deny_numa_calls(unsigned short error_number) {
  const auto compare = [](long number, unsigned char to_denial) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), to_denial, 0);
  };
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      compare(SYS_mbind, 4),
      compare(SYS_set_mempolicy, 3),
      compare(SYS_get_mempolicy, 2),
      compare(SYS_move_pages, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error_number),
  };
  const sock_fprog program{sizeof(steps) / sizeof(steps[0]), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace numapool::test
