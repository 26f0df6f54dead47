// SPDX-License-Identifier: Apache-2.0
#include "system/cli_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include <nlohmann/json.hpp>

namespace numapool::tests {

namespace {

// Appends what is there; false once the other end has closed.
bool drain(int fd, std::string& into) {
  char block[65536];
  const ssize_t length = read(fd, block, sizeof block);
  if (length > 0) {
    into.append(block, static_cast<std::size_t>(length));
  }
  return length > 0;
}

void make_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
}

}  // namespace

std::string cli_path() {
  const char* path = std::getenv("NUMAPOOL_CLI");
  if (path == nullptr) {
    throw std::runtime_error("NUMAPOOL_CLI is not set: run this test by ctest");
  }
  return path;
}

cli_child::cli_child(const std::vector<std::string>& arguments)
    : cli_child(whole_command{[&arguments] {
        std::vector<std::string> words{cli_path()};
        words.insert(words.end(), arguments.begin(), arguments.end());
        return words;
      }()}) {}

cli_child cli_child::in_shell(const std::string& script) {
  return cli_child(whole_command{{"/bin/sh", "-c", script}});
}

cli_child::cli_child(whole_command command) {
  const std::string& path = command.words.front();
  std::vector<char*> argv;
  argv.reserve(command.words.size() + 1);
  for (std::string& word : command.words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  int out_pipe[2];
  int err_pipe[2];
  make_pipe(out_pipe);
  make_pipe(err_pipe);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out_pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_pipe[1], STDERR_FILENO);
  const int failed = posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out_pipe[1]);
  close(err_pipe[1]);
  out_fd_ = out_pipe[0];
  err_fd_ = err_pipe[0];
  if (failed != 0) {
    throw std::system_error(failed, std::generic_category(), "posix_spawn " + path);
  }
}

cli_child::~cli_child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) {
      close(fd);
    }
  }
}

// False once both outputs have ended.
bool cli_child::read_some(int milliseconds) {
  pollfd ends[2]{{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};  // a negative one is ignored
  poll(ends, 2, milliseconds);
  if (ends[0].revents != 0 && !drain(out_fd_, out)) {
    close(out_fd_);
    out_fd_ = -1;
  }
  if (ends[1].revents != 0 && !drain(err_fd_, err)) {
    close(err_fd_);
    err_fd_ = -1;
  }
  return out_fd_ >= 0 || err_fd_ >= 0;
}

std::string cli_child::read_document(int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!nlohmann::json::accept(out) && std::chrono::steady_clock::now() < end && read_some(100)) {
  }
  return out;
}

void cli_child::signal(int number) const {
  kill(pid_, number);
}

// A pipe is full when no page of it is free.
bool cli_child::is_output_full() const {
  int unread = 0;
  return ioctl(out_fd_, FIONREAD, &unread) == 0 &&
         unread + sysconf(_SC_PAGESIZE) > fcntl(out_fd_, F_GETPIPE_SZ);
}

int cli_child::wait() {
  while (read_some(-1)) {
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

namespace {

cli_result result_of(cli_child& child) {
  const int status = child.wait();
  return {status, child.out, child.err};
}

}  // namespace

cli_result run_cli(const std::vector<std::string>& arguments) {
  cli_child child(arguments);
  return result_of(child);
}

cli_result run_in_shell(const std::string& script) {
  cli_child child = cli_child::in_shell(script);
  return result_of(child);
}

}  // namespace numapool::tests
