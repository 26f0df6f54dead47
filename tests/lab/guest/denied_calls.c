// SPDX-License-Identifier: Apache-2.0
#include "denied_calls.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job.h"

// "capabilities=MASK": the only ones that are left.
static int keep_capabilities(const char* mask) {
  const uint64_t keep = strtoull(mask, NULL, 0);
  const uint32_t low = (uint32_t)keep;
  const uint32_t high = (uint32_t)(keep >> 32);
  for (int capability = 0; capability < 64; ++capability) {
    if ((keep >> capability & 1) == 0) {
      prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
  }
  if (geteuid() != 0) {
    return 0;  // it has none
  }
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{low, low, 0}, {high, high, 0}};
  return (int)syscall(SYS_capset, &head, data);
}

static struct sock_filter load(size_t offset) {
  return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static struct sock_filter jump_if(uint32_t value, int yes, int no) {
  return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (uint8_t)yes, (uint8_t)no);
}

static struct sock_filter answer(uint32_t action) {
  return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

// "deny=ERRNO NUMBER...": those system calls fail with that error.
static int install_filter(const char* deny) {
  enum { calls_max = 64 };
  struct sock_filter program[2 * calls_max + 8];
  unsigned short size = 0;
  char* next = NULL;
  const uint32_t error = (uint32_t)strtoul(deny, &next, 10);
  program[size++] = load(offsetof(struct seccomp_data, arch));
  program[size++] = jump_if(AUDIT_ARCH_X86_64, 1, 0);
  program[size++] = answer(SECCOMP_RET_ALLOW);
  program[size++] = load(offsetof(struct seccomp_data, nr));
  for (int calls = 0; *next != '\0' && calls < calls_max; ++calls) {
    program[size++] = jump_if((uint32_t)strtoul(next, &next, 10), 0, 1);
    program[size++] = answer(SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA));
  }
  program[size++] = answer(SECCOMP_RET_ALLOW);
  const struct sock_fprog whole = {size, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return -1;
  }
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
}

int deny_calls(void) {
  const char* capabilities = job_value("capabilities");
  const char* deny = job_value("deny");
  if (capabilities != NULL && keep_capabilities(capabilities) != 0) {
    return -1;
  }
  return deny != NULL ? install_filter(deny) : 0;
}
