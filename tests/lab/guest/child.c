// SPDX-License-Identifier: Apache-2.0
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serial.h"

static const char requests_path[] = "/.lab/host";

enum { output, error, requests, signals, source_count };

static int open_requests(void) {
  mkfifo(requests_path, 0600);
  return open(requests_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);  // for writing too: it never ends
}

static void redirect(int to_output, int to_error) {
  setsid();
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  dup2(to_output, 1);
  dup2(to_error, 2);
}

static pid_t start(struct pollfd* sources, void (*become)(char* const*), char* const* variables) {
  int output_pipe[2], error_pipe[2];
  sigset_t ended, before;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  if (pipe2(output_pipe, O_CLOEXEC) != 0 || pipe2(error_pipe, O_CLOEXEC) != 0) {
    send_text('L', "pipe: %s", strerror(errno));
  }
  const int all[source_count] = {output_pipe[0], error_pipe[0], open_requests(),
                                 signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK)};
  for (int i = 0; i < source_count; ++i) {
    sources[i] = (struct pollfd){all[i], POLLIN, 0};
  }
  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    redirect(output_pipe[1], error_pipe[1]);
    become(variables);
    _exit(125);
  }
  close(output_pipe[1]);
  close(error_pipe[1]);
  return child;
}

// Reaps whatever has ended: as process 1 this adopts orphans. Whether the child is among them.
static int reap(int signal_fd, pid_t child, int* status) {
  struct signalfd_siginfo information;
  int found = 0, its_status;
  pid_t pid;
  while (read(signal_fd, &information, sizeof information) > 0) {
  }
  while ((pid = waitpid(-1, &its_status, WNOHANG)) > 0) {
    if (pid == child) {
      *status = its_status;
      found = 1;
    }
  }
  return found;
}

// Sends what there is. A source that has ended is closed, and polled no more.
static void relay(struct pollfd* source, char frame) {
  static char buffer[65536];
  if (source->fd < 0 || source->revents == 0) {
    return;
  }
  const ssize_t count = read(source->fd, buffer, sizeof buffer);
  if (count > 0) {
    send_frame(frame, buffer, (uint32_t)count);
  } else if (count == 0 || errno != EAGAIN) {
    close(source->fd);
    source->fd = -1;
  }
}

int run_child(void (*become)(char* const* variables), char* const* variables, char output_frame,
              char error_frame) {
  struct pollfd sources[source_count];
  int status = 125 << 8, ended = 0;
  const pid_t child = start(sources, become, variables);
  // A daemon that outlives the child may hold its pipes: after the child's end only what is in them
  // already is waited for.
  while (!ended || sources[output].fd >= 0 || sources[error].fd >= 0) {
    const int ready = poll(sources, source_count, ended ? 0 : -1);
    if (ended && ready <= 0) {
      break;
    }
    relay(&sources[output], output_frame);
    relay(&sources[error], error_frame);
    relay(&sources[requests], 'H');
    if (!ended && sources[signals].revents != 0) {
      ended = reap(sources[signals].fd, child, &status);
    }
  }
  for (int i = 0; i < source_count; ++i) {
    if (sources[i].fd >= 0) {
      close(sources[i].fd);
    }
  }
  return status;
}
