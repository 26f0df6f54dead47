// SPDX-License-Identifier: Apache-2.0
#include "gpu/children.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

namespace numapool::gpu_probe {
namespace {

using clock = std::chrono::steady_clock;

pid_t start(const std::vector<std::string>& arguments, int write_end) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& each : arguments) {
    pointers.push_back(const_cast<char*>(each.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end, answer_fd);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // killed with what it forks
  pid_t child = -1;
  const int status =
      ::posix_spawn(&child, "/proc/self/exe", &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return status == 0 ? child : -1;
}

int milliseconds_until(clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left);
}

// Reads until everybody has closed the pipe. False where the time was up before.
bool read_all(int fd, clock::time_point deadline, std::string& text) {
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready == 0) {
      return false;
    }
    char buffer[4096];
    const ssize_t got = ready < 0 ? -1 : ::read(fd, buffer, sizeof buffer);
    if (got > 0) {
      text.append(buffer, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return true;
    }
  }
}

// False where the child does not end: a process that is stuck in the kernel cannot be killed.
bool reap(pid_t child, clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t reaped = ::waitpid(child, &status, WNOHANG);
    if (reaped != 0) {
      return reaped == child;
    }
    if (clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
}

void take_line(child_answer& answer, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string kind = line.substr(0, space);
  const std::string text = space == std::string::npos ? "" : line.substr(space + 1);
  if (kind == "seen") {
    answer.seen.push_back(text);
  } else if (kind == "note") {
    answer.notes.push_back(text);
  } else if (kind == "skip") {
    answer.skipped = text.empty() ? "no reason given" : text;
  }
}

std::string words_for(int status) {
  if (WIFSIGNALED(status)) {
    return std::string{"dies of "} + ::strsignal(WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? "" : "ends with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

child_answer ask_child(const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  child_answer answer;
  const auto begin = clock::now();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    answer.end = "cannot be started";
    return answer;
  }
  // Above answer_fd, so that the child's copy there does not stay closed-on-exec.
  const int write_end = ::fcntl(ends[1], F_DUPFD_CLOEXEC, answer_fd + 1);
  ::close(ends[1]);
  const pid_t child = write_end < 0 ? -1 : start(arguments, write_end);
  ::close(write_end);
  std::string text;
  if (child < 0) {
    answer.end = "cannot be started";
  } else {
    const bool is_complete = read_all(ends[0], begin + limit, text);
    int status = 0;
    bool has_ended = is_complete && reap(child, begin + limit, status);
    answer.end = has_ended ? words_for(status)
                           : "does not end within " + std::to_string(limit.count()) + " s";
    ::kill(-child, SIGKILL);
    if (!has_ended && !reap(child, clock::now() + std::chrono::seconds{3}, status)) {
      answer.end += ", and cannot be killed";
    }
  }
  ::close(ends[0]);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    take_line(answer, text.substr(at, end - at));
  }
  answer.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  return answer;
}

}  // namespace numapool::gpu_probe
