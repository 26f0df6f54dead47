// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "serial.h"
#include "surroundings.h"

// Of two settings of one variable the later wins.
static char** environment(void) {
  static char* const always[] = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
      "TERM=dumb", "LANG=C.UTF-8", NULL};
  char** variables = job_values("env", always);
  for (char** earlier = variables; *earlier != NULL; ++earlier) {
    const size_t name_size = strcspn(*earlier, "=");
    for (char** later = earlier + 1; *later != NULL; ++later) {
      if (strncmp(*earlier, *later, name_size + 1) == 0) {
        *earlier = *later;
      }
    }
  }
  return variables;
}

static void become_command(char* const* variables) {
  char** arguments = job_values("arg", NULL);
  if (enter_surroundings() != 0) {
    _exit(125);
  }
  execvpe(arguments[0], arguments, variables);
  dprintf(2, "lab: %s: %s\n", arguments[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

// --- what is brought back ---------------------------------------------------------------------

static void fetch_file(const char* path, off_t size) {
  static char buffer[65536];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    send_text('L', "fetch %s: %s", path, strerror(errno));
    return;
  }
  const uint32_t name_size = (uint32_t)strlen(path) + 1;
  send_head('F', name_size + (uint32_t)size);
  send_bytes(path, name_size);
  while (size > 0) {
    const size_t wanted = size < (off_t)sizeof buffer ? (size_t)size : sizeof buffer;
    ssize_t count = read(fd, buffer, wanted);
    if (count <= 0) {  // it became shorter: the head is sent already
      memset(buffer, 0, wanted);
      count = (ssize_t)wanted;
    }
    send_bytes(buffer, (size_t)count);
    size -= count;
  }
  close(fd);
}

static void fetch(const char* path) {
  struct stat status;
  if (lstat(path, &status) != 0) {
    send_text('L', "fetch %s: %s", path, strerror(errno));
  } else if (S_ISREG(status.st_mode)) {
    fetch_file(path, status.st_size);
  } else if (S_ISDIR(status.st_mode)) {
    struct dirent* entry;
    DIR* folder = opendir(path);
    send_text('D', "%s", path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
      char below[4096];
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
          snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below) {
        fetch(below);
      }
    }
    if (folder != NULL) {
      closedir(folder);
    }
  }
}

static void send_kernel_log(void) {
  enum { read_all = 3 };
  static char log[1 << 18];
  const int count = klogctl(read_all, log, sizeof log);
  if (count > 0) {
    send_frame('K', log, (uint32_t)count);
  }
}

void run_job(void) {
  const char* position = NULL;
  const char* path;
  char** variables = environment();
  if (prepare_surroundings(variables) == 0) {
    send_text('S', "starting");
    send_text('X', "status=%d", run_child(become_command, variables, 'O', 'E'));
    while ((path = next_job_value("fetch", &position)) != NULL) {
      fetch(path);
    }
  }
  if (job_value("kernel-log") != NULL) {
    send_kernel_log();
  }
}
