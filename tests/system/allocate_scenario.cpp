// SPDX-License-Identifier: Apache-2.0
//
// A process of its own for allocations that less is allowed to. Prints what happened as "key=value"
// lines.
//   allocate_scenario seccomp EPERM|ENOSYS
//       mbind, set_mempolicy, get_mempolicy and move_pages are denied
//   allocate_scenario lock-limit
//       64 KiB may be locked, and the user is not privileged

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include <numapool/worker_pool.hpp>

#include "support/numa_calls_denied.hpp"

namespace {

using namespace numapool;

constexpr std::size_t mib = std::size_t{1} << 20U;

request ask(const worker_pool& pool) {
  request what;
  what.size_bytes = 16 * mib;
  what.node = pool.topology().nearest_memory_node(pool.topology().nodes().front().id);
  what.pin = pin_policy::none;
  return what;
}

void print(const char* key, const std::string& value) {
  std::printf("%s=%s\n", key, value.c_str());
}

int run_denied(unsigned short error_number) {
  if (!test::deny_numa_calls(error_number)) {
    std::perror("seccomp");
    return 3;
  }
  worker_pool pool;
  request what = ask(pool);
  const buffer held = pool.allocate(what);
  print("allocated", std::to_string(held.size_bytes()));
  print("bind_obtained", std::string(name(held.policy().obtained)));
  print("bind_error", std::to_string(held.policy().error.value()));
  print("bind_reason", held.policy().reason);
  print("witness", std::string(name(held.placement().by)));
  print("witness_error", std::to_string(held.placement().error.value()));
  print("share", held.placement().share_on_node == 1.0 ? "1" : "other");
  what.bind = bind_policy::strict;
  boost::system::error_code error;
  const buffer strict = pool.allocate(what, error);
  print("strict", error ? strict.why().message : "allocated");
  print("strict_verified", error ? "" : std::string(name(strict.placement().verified)));
  return 0;
}

// As user nobody, with its files in /proc still its own.
bool drop_privileges() {
  constexpr uid_t nobody = 65534;
  return ::geteuid() != 0 || (::setgid(nobody) == 0 && ::setuid(nobody) == 0 &&
                              ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

int run_with_small_limit() {
  const rlimit limit{rlim_t{64} * 1024, rlim_t{64} * 1024};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || !drop_privileges()) {
    print("skipped", "the lock limit or the user could not be changed");
    return 0;
  }
  worker_pool pool;
  request what = ask(pool);
  what.pin = pin_policy::automatic;
  const buffer held = pool.allocate(what);
  print("allocated", std::to_string(held.size_bytes()));
  print("pin", std::string(name(held.pin().obtained)));
  print("pin_reason", held.pin().reason);
  what.pin = pin_policy::mlock;
  boost::system::error_code error;
  const buffer refused = pool.allocate(what, error);
  print("mlock", std::string(name(static_cast<errc>(error.value()))));
  print("mlock_message", refused.why().message);
  what.size_bytes = 4096;
  what.pin = pin_policy::automatic;
  print("small", std::string(name(pool.allocate(what).pin().obtained)));
  return 0;
}

int run(const std::string& scenario, const std::string& argument) {
  if (scenario == "seccomp") {
    return run_denied(argument == "ENOSYS" ? ENOSYS : EPERM);
  }
  return scenario == "lock-limit" ? run_with_small_limit() : 2;
}

}  // namespace

// Ends without exit handlers: a leak checker would want to trace a process that no longer may be.
int main(int count, char** arguments) {
  const int status = run(count > 1 ? arguments[1] : "", count > 2 ? arguments[2] : "");
  std::fflush(stdout);
  ::_exit(status);
}
