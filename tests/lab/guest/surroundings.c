// SPDX-License-Identifier: Apache-2.0
#include "surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "denied_calls.h"
#include "job.h"
#include "masked_pci.h"
#include "payload.h"
#include "serial.h"

int write_text(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  const ssize_t count = write(fd, text, strlen(text));
  const int error = errno;
  close(fd);
  errno = error;
  return count < 0 ? -1 : 0;
}

// The guest has no clock of its own that a snapshot would not turn back.
static void set_clock(void) {
  const char* seconds = job_value("time");
  if (seconds != NULL) {
    const struct timespec now = {strtol(seconds, NULL, 10), 0};
    clock_settime(CLOCK_REALTIME, &now);
  }
}

// --- the cgroup -------------------------------------------------------------------------------

static int uses_cgroup(void) {
  return job_value("cpuset.cpus") != NULL || job_value("cpuset.mems") != NULL ||
         job_value("memory.max") != NULL;
}

static int set_in_cgroup(const char* file) {
  char path[256];
  const char* value = job_value(file);
  if (value == NULL) {
    return 0;
  }
  snprintf(path, sizeof path, "/sys/fs/cgroup/job/%s", file);
  if (write_text(path, value) != 0) {
    send_text('B', "cgroup: %s = %s: %s", file, value, strerror(errno));
    return -1;
  }
  return 0;
}

static int make_cgroup(void) {
  if (!uses_cgroup()) {
    return 0;
  }
  mkdir("/sys/fs/cgroup/job", 0755);
  return set_in_cgroup("cpuset.cpus") == 0 && set_in_cgroup("cpuset.mems") == 0 &&
                 set_in_cgroup("memory.max") == 0
             ? 0
             : -1;
}

// --- commands to run before -------------------------------------------------------------------

static const char* command_before;

static void become_command_before(char* const* variables) {
  execle("/bin/busybox", "sh", "-c", command_before, (char*)NULL, variables);
}

static int run_before(const char* command, char* const* variables) {
  command_before = command;
  const int status = run_child(become_command_before, variables, 'L', 'L');
  if (status != 0) {
    send_text('B', "the command to run before failed (status 0x%x): %s", status, command);
    return -1;
  }
  return 0;
}

int prepare_surroundings(char* const* variables) {
  const char* position = NULL;
  const char* value;
  set_clock();
  while ((value = next_job_value("mask", &position)) != NULL) {
    if (mask_pci_device(value) != 0) {
      return -1;
    }
  }
  position = NULL;
  while ((value = next_job_value("before", &position)) != NULL) {
    if (run_before(value, variables) != 0) {
      return -1;
    }
  }
  return make_cgroup();
}

// --- in the child -----------------------------------------------------------------------------

static int fail(const char* what) {
  dprintf(2, "lab: %s: %s\n", what, strerror(errno));
  return -1;
}

static int limit_locked_memory(void) {
  const char* bytes = job_value("memlock");
  if (bytes == NULL) {
    return 0;
  }
  struct rlimit limit;
  limit.rlim_max = strcmp(bytes, "unlimited") == 0 ? RLIM_INFINITY : strtoull(bytes, NULL, 0);
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? 0 : fail("RLIMIT_MEMLOCK");
}

static int enter_folder(void) {
  char path[4096];
  const char* folder = job_value("cwd");
  if (folder == NULL || strlen(folder) >= sizeof path) {
    return 0;
  }
  make_parents(strcpy(path, folder));
  mkdir(folder, 0755);
  return chdir(folder) == 0 ? 0 : fail(folder);
}

static int become_user(void) {
  const char* user = job_value("uid");
  if (user == NULL) {
    return 0;
  }
  const unsigned id = (unsigned)strtoul(user, NULL, 10);
  return setgroups(0, NULL) == 0 && setgid(id) == 0 && setuid(id) == 0 ? 0 : fail("setuid");
}

int enter_surroundings(void) {
  const struct rlimit no_core = {0, RLIM_INFINITY};
  if (uses_cgroup() && write_text("/sys/fs/cgroup/job/cgroup.procs", "0") != 0) {
    return fail("cgroup.procs");
  }
  setrlimit(RLIMIT_CORE, &no_core);
  if (limit_locked_memory() != 0 || enter_folder() != 0 || become_user() != 0) {
    return -1;
  }
  return deny_calls() == 0 ? 0 : fail("seccomp");
}
