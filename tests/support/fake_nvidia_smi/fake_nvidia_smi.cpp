// SPDX-License-Identifier: Apache-2.0

// A fake nvidia-smi that answers `topo --get-numa-id-of-nearby-cpu -i <gpu>`, or does what public
// reports tell of the real one. NUMAPOOL_FAKE_NVIDIA_SMI says what:
//   node:TEXT   the real one's line with TEXT for the node: "1", "N/A", "0-1", "0,2-17", "".
//               The default is node:0
//   print:TEXT  TEXT and a line's end
//   colour      node 1 with terminal colours
//   garbage     every byte value
//   flood       10 MiB of text
//   usage       the help text, exit 9
//   exit:N      nothing, exit N
//   crash       half an answer, then ended by a signal
//   sleep       60 s, deaf to TERM
//   mute        closes its output, then as sleep
//   hold        node 1 and exit 0, leaving a child that holds the pipe for 60 s, deaf to TERM
//   daemon      the same in a session of its own
//   traced      as sleep, traced by a child: once killed it cannot be reaped until the child ends,
//               as a program stuck in the kernel cannot. Exit 3 where tracing is not allowed
//   describe    how it was started: see describe()
// Several, each for one GPU, as  GPU=BEHAVIOUR|GPU=BEHAVIOUR ; another GPU is exit 6.
// NUMAPOOL_FAKE_NVIDIA_SMI_LOG names a file that gets a line for each start, "pid=N arguments", and
// for each child, "child=N".

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr unsigned int patience_s = 60;

void write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote <= 0) {
      return;
    }
    done += static_cast<std::size_t>(wrote);
  }
}

void log_line(const std::string& line) {
  const char* path = std::getenv("NUMAPOOL_FAKE_NVIDIA_SMI_LOG");
  const int file =
      path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    return;
  }
  const std::string whole = line + "\n";
  if (::write(file, whole.data(), whole.size()) < 0) {
    std::perror("fake nvidia-smi: log");
  }
  ::close(file);
}

void wait_deaf() {
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  for (unsigned int left = patience_s; left > 0;) {
    left = ::sleep(left);
  }
}

void answer(const std::string& node) {
  write_all("NUMA IDs of closest CPU: " + node + "\n");
}

int leave_child(bool has_own_session) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (has_own_session) {
      ::setsid();
    }
    wait_deaf();
    ::_exit(0);
  }
  log_line("child=" + std::to_string(child));
  answer("1");
  return 0;
}

// The child lets go when it is killed.
int wait_traced() {
  std::array<int, 2> told{};
  if (::pipe(told.data()) != 0) {
    return 3;
  }
  const pid_t traced = ::getpid();
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const bool is_tracing = ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0;
    const char result = is_tracing ? 'y' : 'n';
    if (::write(told[1], &result, 1) == 1 && is_tracing) {
      wait_deaf();
    }
    ::_exit(0);
  }
  log_line("child=" + std::to_string(child));
  char result = 'n';
  if (::read(told[0], &result, 1) != 1 || result != 'y') {
    return 3;
  }
  wait_deaf();
  return 0;
}

std::string status_line(const std::string& key) {
  std::ifstream file{"/proc/self/status"};
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":\t", 0) == 0) {
      return line.substr(key.size() + 2);
    }
  }
  return {};
}

// Without signals 32 and 33: the C library keeps them for itself, and its posix_spawn ignores them.
std::string signals(const std::string& key) {
  const unsigned long long own = 3ULL << 31U;
  return std::to_string(std::strtoull(status_line(key).c_str(), nullptr, 16) & ~own);
}

std::string target(const char* link) {
  std::array<char, 256> text{};
  return ::readlink(link, text.data(), text.size() - 1) < 0 ? std::string{} : text.data();
}

std::string open_files() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::set<int> numbers;
  while (const dirent* entry = ::readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(folder)) {
      numbers.insert(number);
    }
  }
  ::closedir(folder);
  std::string text;
  for (const int number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

int describe(const std::vector<std::string>& arguments) {
  std::string text = "files=" + open_files();
  text += "\ninput=" + target("/proc/self/fd/0") + "\nerrors=" + target("/proc/self/fd/2");
  text += std::string{"\nleads_group="} + (::getpgrp() == ::getpid() ? "1" : "0");
  text += "\nblocked=" + signals("SigBlk") + "\nignored=" + signals("SigIgn");
  for (const std::string& argument : arguments) {
    text += "\nargument=" + argument;
  }
  write_all(text + "\n");
  return 0;
}

int flood() {
  const std::string line(1023, 'x');
  for (int i = 0; i < 10 * 1024; ++i) {
    write_all(line + "\n");
  }
  return 0;
}

int usage() {
  write_all("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
  return 9;
}

int garbage() {
  std::string text;
  for (int value = 0; value < 256; ++value) {
    text += static_cast<char>(value);
  }
  write_all(text);
  return 0;
}

int crash() {
  write_all("NUMA IDs of clo");
  ::raise(SIGKILL);
  return 1;
}

int behave(const std::string& behaviour, const std::vector<std::string>& arguments) {
  const std::size_t colon = behaviour.find(':');
  const std::string name = behaviour.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : behaviour.substr(colon + 1);
  if (name == "node") {
    answer(value);
  } else if (name == "print") {
    write_all(value + "\n");
  } else if (name == "colour") {
    write_all("\033[4mNUMA IDs of closest CPU\033[0m: \033[1m1\033[0m\n");
  } else if (name == "exit") {
    return std::atoi(value.c_str());
  } else if (name == "mute") {
    ::close(STDOUT_FILENO);
    wait_deaf();
  } else if (name == "sleep") {
    wait_deaf();
  } else if (name == "hold" || name == "daemon") {
    return leave_child(name == "daemon");
  } else {
    return name == "usage"      ? usage()
           : name == "garbage"  ? garbage()
           : name == "flood"    ? flood()
           : name == "crash"    ? crash()
           : name == "traced"   ? wait_traced()
           : name == "describe" ? describe(arguments)
                                : 2;
  }
  return 0;
}

// The behaviour for the GPU that was asked for, where each has its own.
std::string choose(const std::string& text, const std::vector<std::string>& arguments) {
  std::string gpu;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    gpu = arguments[i] == "-i" ? arguments[i + 1] : gpu;
  }
  const std::string all = "|" + text + "|";
  const std::size_t at = all.find("|" + gpu + "=");
  if (gpu.empty() || at == std::string::npos) {
    return text.find('=') == std::string::npos || text.rfind("print:", 0) == 0 ? text : "exit:6";
  }
  const std::size_t begin = at + gpu.size() + 2;
  return all.substr(begin, all.find('|', begin) - begin);
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  std::string line = "pid=" + std::to_string(::getpid());
  for (const std::string& argument : arguments) {
    line += " " + argument;
  }
  log_line(line);
  const char* text = std::getenv("NUMAPOOL_FAKE_NVIDIA_SMI");
  return behave(choose(text == nullptr ? "node:0" : text, arguments), arguments);
}
