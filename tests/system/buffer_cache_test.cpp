// SPDX-License-Identifier: Apache-2.0
//
// Goal: on this kernel kept memory stays where it was and is handed out again zeroed or as it was;
// a hit that is taken as it is enters no kernel and allocates nothing; a forked child gets nothing.
// Method: real pools on every node; a thread that may make no system call; a counting operator new.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <numapool/buffer_cache.hpp>

#include "support/child_status.hpp"
#include "support/page_oracle.hpp"

namespace {

thread_local std::size_t allocations = 0;  // how often the calling thread has allocated

}  // namespace

// GCC 12 takes the pair apart when it inlines them.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const made = std::malloc(size)) {
    return made;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* freed) noexcept {
  std::free(freed);
}
[[gnu::noinline]] void operator delete(void* freed, std::size_t) noexcept {
  std::free(freed);
}

namespace numapool {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::byte written{0x5A};

// A sanitizer's own calls are not ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

request ask(node_id node, std::size_t size_bytes) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node;
  what.pin = pin_policy::none;
  return what;
}

node_id some_node(const worker_pool& pool) {
  return pool.topology().nearest_memory_node(pool.topology().nodes().front().id);
}

bool is_all(const buffer& held, std::byte wanted) {
  return *held.data() == wanted &&
         std::memcmp(held.data(), held.data() + 1, held.mapped_bytes() - 1) == 0;
}

void use_once(buffer_cache& cache, const request& what) {
  buffer held = cache.take(what);
  std::fill_n(held.data(), held.mapped_bytes(), written);
  cache.give(std::move(held));
}

TEST(RealBufferCache, ReusesMemoryOfEveryNodeThere) {
  worker_pool pool;
  buffer_cache cache(pool, {.pressure_limit_percent = 0});
  for (const node_info& node : pool.topology().nodes()) {
    if (!node.allowed_memory || node.gpu_pci_address) {
      continue;
    }
    for (const bind_policy bind : {bind_policy::prefer, bind_policy::strict}) {
      for (const std::size_t size : {std::size_t{5000}, 3 * mib, 65 * mib}) {
        request what = ask(node.id, size);
        what.bind = bind;
        use_once(cache, what);
        buffer again = cache.take(what);
        EXPECT_TRUE(is_all(again, std::byte{0}));
        const test::page_census census = test::census_of(again.data(), again.mapped_bytes(), 1);
        EXPECT_EQ(census.by_node.size(), 1U) << census;
        EXPECT_EQ(census.by_node.begin()->first, static_cast<int>(node.id.value()));
        EXPECT_EQ(census.not_resident, 0U);
        std::fill_n(again.data(), again.mapped_bytes(), written);
        cache.give(std::move(again));
        again = cache.async_take(what, contents::as_is, boost::asio::use_future).get();
        EXPECT_TRUE(is_all(again, written));
      }
    }
  }
  EXPECT_EQ(cache.stats().hits, 2 * cache.stats().misses);
}

// Any system call of the calling thread but exit_group ends the process from now on.
bool deny_all_calls() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program{sizeof(steps) / sizeof(steps[0]), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(RealBufferCache, EntersNoKernelForAHitAsItIs) {
  if (is_sanitized) {
    GTEST_SKIP() << "SKIPPED: the sanitizer makes system calls of its own";
  }
  constexpr int no_filter = 77;
  const int status = test::status_of_child([]() -> int {
    worker_pool pool;
    buffer_cache cache(pool);
    const request what = ask(some_node(pool), 64 * mib);
    use_once(cache, what);
    if (!deny_all_calls()) {
      ::_exit(no_filter);
    }
    const buffer again = cache.take(what, contents::as_is);
    ::_exit(again && *again.data() == written ? 0 : 1);  // it could not be given back
  });
  if (status == no_filter) {
    GTEST_SKIP() << "SKIPPED: this kernel takes no seccomp filter";
  }
  EXPECT_EQ(status, 0);
}

TEST(RealBufferCache, AllocatesNothingForAHitAsItIs) {
  worker_pool pool;
  buffer_cache cache(pool);
  const request what = ask(some_node(pool), 2 * mib);
  use_once(cache, what);
  const std::size_t before = allocations;
  const buffer again = cache.take(what, contents::as_is);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(*again.data(), written);
}

TEST(RealBufferCache, GivesNothingOutInAForkedChild) {
  worker_pool pool;
  buffer_cache cache(pool);
  const request what = ask(some_node(pool), 8 * mib);
  use_once(cache, what);
  buffer parents = cache.take(ask(what.node, 4 * mib));
  const int status = test::status_of_child([&] {
    boost::system::error_code error;
    const buffer none = cache.take(what, error);
    if (none || error != errc::forked_child || cache.stats().kept.buffers != 0) {
      return 1;
    }
    cache.give(std::move(parents));
    cache.clear();
    if (cache.stats().kept.buffers != 0) {
      return 2;
    }
#if defined(__SANITIZE_THREAD__)
    return 0;  // it dies of threads that a child starts
#else
    worker_pool own_pool;
    buffer_cache own_cache(own_pool);
    use_once(own_cache, what);
    if (!is_all(own_cache.take(what), std::byte{0})) {
      return 3;
    }
    cache.give(own_cache.take(what));
    return 0;
#endif
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_all(cache.take(what, contents::as_is), written));
}

}  // namespace
}  // namespace numapool
