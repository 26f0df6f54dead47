// SPDX-License-Identifier: Apache-2.0

// The one place that starts other programs.

#include "platform/linux_programs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <new>
#include <utility>

#include "base/failures.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The last part of the limit is kept for ending the program: a killed one usually dies in a few
// milliseconds, and one that was seen to die need not be looked after later.
constexpr milliseconds ending_time_max{200};
constexpr milliseconds longest_limit = std::chrono::hours{1};  // so that no sum overflows
constexpr milliseconds polling_period{5};
// How long the kernel may take from "it has exited" to keeping its status, where others reap it;
// meanwhile it says ESRCH now and then.
constexpr milliseconds status_time_max{50};

constexpr auto by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD, since glibc 2.36
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

class descriptor {
 public:
  descriptor() noexcept = default;
  explicit descriptor(int number) noexcept : number_{number} {}
  descriptor(descriptor&& other) noexcept : number_{other.release()} {}
  descriptor& operator=(descriptor&& other) noexcept {
    close();
    number_ = other.release();
    return *this;
  }
  ~descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); }
  void close() noexcept {
    if (is_open()) {
      ::close(release());
    }
  }

 private:
  int number_ = -1;
};

struct pipe_ends {
  descriptor read_end;   // does not block
  descriptor write_end;  // blocks, as programs expect of their output
};

error_code make_pipe(pipe_ends& ends) noexcept {
  std::array<int, 2> numbers{};
  if (::pipe2(numbers.data(), O_CLOEXEC) != 0) {
    return base::last_system_error();
  }
  ends.read_end = descriptor{numbers[0]};
  ends.write_end = descriptor{numbers[1]};
  if (::fcntl(numbers[0], F_SETFL, O_NONBLOCK) != 0) {
    return base::last_system_error();
  }
  return {};
}

// ---- Starting

class spawn_actions {
 public:
  spawn_actions() noexcept { failure_ = ::posix_spawn_file_actions_init(&actions_); }
  spawn_actions(const spawn_actions&) = delete;
  spawn_actions& operator=(const spawn_actions&) = delete;
  ~spawn_actions() { ::posix_spawn_file_actions_destroy(&actions_); }

  // Standard output is `output`, the others are /dev/null, and nothing else is open. In a process
  // without standard descriptors `output` may be 1, which dup2 then keeps open, or 2, which is
  // duplicated before it is replaced; never 0, since a pipe's read end has the lower number.
  int set(int output) noexcept {
    const auto then = [this](int result) {
      failure_ = failure_ != 0 ? failure_ : result;
    };
    then(::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    then(::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO));
    then(::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0));
    then(::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1));
    return failure_;
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
  int failure_ = 0;
};

class spawn_attributes {
 public:
  spawn_attributes() noexcept { failure_ = ::posix_spawnattr_init(&attributes_); }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
  ~spawn_attributes() { ::posix_spawnattr_destroy(&attributes_); }

  // A process group of its own, every signal at its default and none blocked.
  int set() noexcept {
    const auto then = [this](int result) {
      failure_ = failure_ != 0 ? failure_ : result;
    };
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    then(::posix_spawnattr_setpgroup(&attributes_, 0));
    then(::posix_spawnattr_setsigmask(&attributes_, &none));
    then(::posix_spawnattr_setsigdefault(&attributes_, &all));
    constexpr int flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    then(::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
    return failure_;
  }
  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
  int failure_ = 0;
};

// posix_spawn rather than fork: it copies no page tables, runs no handler of pthread_atfork, and
// answers with the errno of exec. It returns when the kernel has read the program file: one on a
// dead network file system is the one thing that the limit does not cover.
error_code start(const std::vector<std::string>& argv, int output, pid_t& pid) {
  if (argv.empty()) {
    return base::system_error(EINVAL);
  }
  if (::getauxval(AT_SECURE) != 0 && argv.front().rfind('/', 0) != 0) {
    return base::system_error(EPERM);
  }
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  spawn_actions actions;
  spawn_attributes attributes;
  int failed = actions.set(output);
  failed = failed != 0 ? failed : attributes.set();
  if (failed == 0) {
    failed = ::posix_spawnp(&pid, arguments[0], actions.get(), attributes.get(), arguments.data(),
                            environ);
  }
  return failed != 0 ? base::system_error(failed) : error_code{};
}

// ---- Reaping

enum class reaped { not_yet, now, by_others };

// Asks after this one child alone, and waits for nothing. By pidfd where there is one, since a
// child that others reap frees its number for another.
reaped try_reap(const unreaped_child& child, siginfo_t& how) noexcept {
  how = siginfo_t{};
  const bool has_pidfd = child.pidfd >= 0;
  const idtype_t kind = has_pidfd ? by_pidfd : P_PID;
  const auto id = static_cast<id_t>(has_pidfd ? child.pidfd : child.pid);
  if (::waitid(kind, id, &how, WEXITED | WNOHANG) != 0) {
    return reaped::by_others;
  }
  return how.si_pid != 0 ? reaped::now : reaped::not_yet;
}

// Where this process is the init of a container, or a subreaper, what a program leaves running
// becomes our child when the program dies. Reaps what is killed of that, for a moment; it is in the
// program's group, as no other child of the caller's is.
void reap_group(pid_t group, clock::time_point until) noexcept {
  siginfo_t how{};
  while (::waitid(P_PGID, static_cast<id_t>(group), &how, WEXITED | WNOHANG) == 0) {
    if (how.si_pid == 0) {
      if (clock::now() >= until) {
        return;
      }
      ::poll(nullptr, 0, 1);
    }
    how = siginfo_t{};
  }
}

// What PIDFD_GET_INFO fills; the first version of it.
struct pidfd_facts {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::array<std::uint32_t, 11> ids;
  std::int32_t exit_code;
};
static_assert(sizeof(pidfd_facts) == 64);
constexpr std::uint64_t pidfd_has_exit = 8;
constexpr unsigned long pidfd_get_info = _IOWR(0xFF, 11, pidfd_facts);

// The status of a child that others have reaped, as wait() would have told it; false where the
// kernel, before Linux 6.15, does not keep it.
bool kept_status(const unreaped_child& child, int& status) noexcept {
  if (child.pidfd < 0) {
    return false;
  }
  const auto until = clock::now() + status_time_max;
  do {
    pidfd_facts facts{};
    facts.mask = pidfd_has_exit;
    if (::ioctl(child.pidfd, pidfd_get_info, &facts) != 0) {
      if (errno != ESRCH) {
        return false;  // a kernel that does not know the question
      }
    } else if ((facts.mask & pidfd_has_exit) != 0) {
      status = facts.exit_code;
      return true;
    }
    ::poll(nullptr, 0, 1);
  } while (clock::now() < until);
  return false;
}

// ---- Running

// One started program, from its start to its end. Whatever happens, its group is killed, and it is
// reaped or handed on.
class running_program {
 public:
  running_program(pid_t pid, descriptor output, exit_watch watch, clock::time_point limit,
                  milliseconds time)
      : pid_{pid},
        output_{std::move(output)},
        limit_{limit},
        kill_at_{limit - std::min(ending_time_max, time / 4)} {
    if (watch == exit_watch::pidfd) {
      pidfd_ = descriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U))};
    }
  }

  void read_until_end(std::size_t output_bytes, program_answer& answer);
  // Kills what is left of the group, reaps the program and fills in how it ended. Returns the child
  // if it cannot be reaped within the limit.
  unreaped_child end(program_answer& answer) noexcept;

 private:
  enum class output_state { open, closed, full };

  [[nodiscard]] output_state drain(std::size_t output_bytes, program_answer& answer);
  [[nodiscard]] bool has_exited() const noexcept;
  bool wait(clock::time_point until, bool for_output) const noexcept;
  [[nodiscard]] unreaped_child child() const noexcept { return {pid_, pidfd_.number()}; }

  pid_t pid_;
  descriptor pidfd_;  // none: polling
  descriptor output_;
  clock::time_point limit_;
  clock::time_point kill_at_;
  bool has_ended_itself_ = false;
};

// Without reaping: until it is reaped, nobody else can have its number, and its group can be
// killed.
bool running_program::has_exited() const noexcept {
  if (pidfd_.is_open()) {
    pollfd watched{pidfd_.number(), POLLIN, 0};
    return ::poll(&watched, 1, 0) > 0;
  }
  siginfo_t how{};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || how.si_pid != 0;
}

// Waits for the program's end, for output if asked, or for the time; false when the time has come.
bool running_program::wait(clock::time_point until, bool for_output) const noexcept {
  const auto left = std::chrono::ceil<milliseconds>(until - clock::now());
  if (left <= milliseconds{0}) {
    return false;
  }
  const milliseconds longest = pidfd_.is_open() ? left : std::min(left, polling_period);
  std::array<pollfd, 2> watched{{{pidfd_.number(), POLLIN, 0},  // poll skips negative numbers
                                 {for_output ? output_.number() : -1, POLLIN, 0}}};
  ::poll(watched.data(), watched.size(), static_cast<int>(longest.count()));
  return true;
}

// Reads what is there.
running_program::output_state running_program::drain(std::size_t output_bytes,
                                                     program_answer& answer) {
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(output_.number(), piece.data(), piece.size());
    if (got == 0) {
      return output_state::closed;
    }
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno == EAGAIN ? output_state::open : output_state::closed;
    }
    const std::size_t room = output_bytes - answer.output.size();
    const auto size = static_cast<std::size_t>(got);
    answer.output.append(piece.data(), std::min(size, room));
    if (size > room) {
      answer.is_cut = true;
      return output_state::full;
    }
  }
}

void running_program::read_until_end(std::size_t output_bytes, program_answer& answer) {
  bool is_open = true;
  for (;;) {
    // Asked before the pipe is drained: what it wrote before its end is then read, and what a child
    // of its may write later is not waited for.
    const bool is_over = has_exited();
    if (is_open) {
      const output_state state = drain(output_bytes, answer);
      if (state == output_state::full) {
        return;
      }
      is_open = state == output_state::open;
    }
    if (is_over) {
      has_ended_itself_ = true;
      return;
    }
    if (!wait(kill_at_, is_open)) {
      answer.is_timed_out = true;
      return;
    }
  }
}

unreaped_child running_program::end(program_answer& answer) noexcept {
  // Where others reap our children, the number may be free by now; but the kernel hands numbers out
  // in turn and does not come round within these microseconds.
  ::kill(-pid_, SIGKILL);
  if (!has_ended_itself_) {
    ::kill(pid_, SIGKILL);  // it may have left its group
  }
  output_.close();
  while (!has_exited() && wait(limit_, false)) {
  }
  siginfo_t how{};
  const reaped result = try_reap(child(), how);
  if (result == reaped::not_yet) {
    answer.is_status_lost = has_ended_itself_;  // somebody traces it, and is told first
    return {pid_, pidfd_.release()};
  }
  reap_group(pid_, std::min(limit_, clock::now() + ending_time_max));
  int status = -1;
  if (result == reaped::now && how.si_code == CLD_EXITED) {
    answer.exit_status = how.si_status;
  } else if (result == reaped::by_others && kept_status(child(), status)) {
    answer.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  } else if (result == reaped::by_others) {
    answer.is_status_lost = has_ended_itself_;
  }
  return {};
}

}  // namespace

linux_programs::~linux_programs() {
  reap_stuck();
  const base::lock_guard lock{mutex_};
  for (const unreaped_child& child : stuck_) {
    descriptor{child.pidfd}.close();
  }
}

void linux_programs::reap_stuck() noexcept {
  const base::lock_guard lock{mutex_};
  for (auto child = stuck_.begin(); child != stuck_.end();) {
    siginfo_t how{};
    if (try_reap(*child, how) == reaped::not_yet) {
      ++child;
      continue;
    }
    descriptor{child->pidfd}.close();
    child = stuck_.erase(child);
  }
}

error_code linux_programs::run(const std::vector<std::string>& argv, const program_limits& limits,
                               program_answer& answer) noexcept {
  const milliseconds time = std::clamp(limits.time, milliseconds{0}, longest_limit);
  const clock::time_point limit = clock::now() + time;
  answer = program_answer{};
  reap_stuck();
  try {
    std::list<unreaped_child> place(1);  // while failing is still easy
    pipe_ends pipe;
    pid_t pid = -1;
    if (const error_code failed = make_pipe(pipe)) {
      return failed;
    }
    if (const error_code failed = start(argv, pipe.write_end.number(), pid)) {
      return failed;
    }
    pipe.write_end.close();
    running_program program{pid, std::move(pipe.read_end), watch_, limit, time};
    error_code failed;
    try {
      program.read_until_end(limits.output_bytes, answer);
    } catch (const std::bad_alloc&) {
      failed = make_error_code(boost::system::errc::not_enough_memory);
    }
    place.front() = program.end(answer);
    if (place.front().pid >= 0) {
      const base::lock_guard lock{mutex_};
      stuck_.splice(stuck_.end(), place);
    }
    return failed;
  } catch (const std::bad_alloc&) {
    return make_error_code(boost::system::errc::not_enough_memory);
  }
}

// Never destroyed: it may be asked by static destructors that run later than ours would.
programs& process_programs() noexcept {
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): a process without room for this is lost
  static programs& instance = *new linux_programs;
  return instance;
}

}  // namespace numapool::platform
