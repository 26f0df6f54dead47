// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

// --- the command's output and end -------------------------------------------------------------

struct child {
  pid_t pid;
  int outputs[2];  // standard output, standard error
  int signals;     // a signalfd for SIGCHLD
};

static void become_command(const int* outputs, char* const* variables) {
  char** arguments = job_values("arg", NULL);
  setsid();
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  dup2(outputs[0], 1);
  dup2(outputs[1], 2);
  if (enter_surroundings() != 0) {
    _exit(125);
  }
  execvpe(arguments[0], arguments, variables);
  dprintf(2, "lab: %s: %s\n", arguments[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static struct child start_command(char* const* variables) {
  struct child child;
  int output[2], error[2];
  sigset_t ended, before;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  child.signals = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0) {
    send_text('L', "pipe: %s", strerror(errno));
  }
  child.pid = fork();
  if (child.pid == 0) {
    const int outputs[2] = {output[1], error[1]};
    sigprocmask(SIG_SETMASK, &before, NULL);
    become_command(outputs, variables);
  }
  close(output[1]);
  close(error[1]);
  child.outputs[0] = output[0];
  child.outputs[1] = error[0];
  return child;
}

// Reaps whatever has ended: as process 1 this adopts orphans. Whether the command is among them.
static int reap(const struct child* child, int* status) {
  struct signalfd_siginfo information;
  int found = 0, its_status;
  pid_t pid;
  while (read(child->signals, &information, sizeof information) > 0) {
  }
  while ((pid = waitpid(-1, &its_status, WNOHANG)) > 0) {
    if (pid == child->pid) {
      *status = its_status;
      found = 1;
    }
  }
  return found;
}

// A daemon that outlives the command may hold its pipes: after the command's end only what is in
// them already is waited for.
static int relay_until_end(const struct child* child) {
  static char buffer[65536];
  struct pollfd sources[3] = {
      {child->outputs[0], POLLIN, 0}, {child->outputs[1], POLLIN, 0}, {child->signals, POLLIN, 0}};
  int status = 125 << 8, ended = 0;
  while (sources[0].fd >= 0 || sources[1].fd >= 0 || !ended) {
    const int ready = poll(sources, 3, ended ? 0 : -1);
    if (ended && ready <= 0) {
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (sources[i].fd >= 0 && sources[i].revents != 0) {
        const ssize_t count = read(sources[i].fd, buffer, sizeof buffer);
        if (count > 0) {
          send_frame(i == 0 ? 'O' : 'E', buffer, (uint32_t)count);
        } else {
          sources[i].fd = -1;
        }
      }
    }
    if (sources[2].revents != 0 && reap(child, &status)) {
      ended = 1;
      sources[2].fd = -1;
    }
  }
  return status;
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
    const struct child child = start_command(variables);
    send_text('X', "status=%d", relay_until_end(&child));
    while ((path = next_job_value("fetch", &position)) != NULL) {
      fetch(path);
    }
  }
  if (job_value("kernel-log") != NULL) {
    send_kernel_log();
  }
}
