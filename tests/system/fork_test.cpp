// SPDX-License-Identifier: Apache-2.0
//
// Goal: a forked child has no share in its parent's buffers and pool: it is told so, may drop its
// copies of handles and end, and the parent's memory is as it was; a pool of its own works.
// Method: real forks; the child answers by its exit status.

#include <algorithm>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <numapool/worker_pool.hpp>

#include "support/child_status.hpp"
#include "support/smaps.hpp"

namespace numapool {
namespace {

using test::status_of_child;

constexpr std::size_t mib = std::size_t{1} << 20U;

request ask(const worker_pool& pool) {
  request what;
  what.size_bytes = 8 * mib;
  what.node = pool.topology().nearest_memory_node(pool.topology().nodes().front().id);
  what.pin = pin_policy::mlock;
  return what;
}

buffer make_filled(worker_pool& pool) {
  boost::system::error_code error;
  request what = ask(pool);
  buffer held = pool.allocate(what, error);
  if (error == errc::memlock_limit) {
    what.pin = pin_policy::none;
    held = pool.allocate(what);
  }
  std::fill_n(held.data(), held.size_bytes(), std::byte{0x5a});
  return held;
}

bool is_intact(const buffer& held) {
  return std::all_of(held.span().begin(), held.span().end(),
                     [](std::byte one) { return one == std::byte{0x5a}; });
}

TEST(ForkedChild, IsToldThatThePoolIsItsParents) {
  worker_pool pool;
  const node_id node = ask(pool).node;
  pool.submit(node, [] {});
  const int status = status_of_child([&] {
    boost::system::error_code error;
    static_cast<void>(pool.allocate(ask(pool), error));
    if (error != errc::forked_child) {
      return 1;
    }
    try {
      pool.submit(node, [] {});
      return 2;
    } catch (const numapool::error& thrown) {
      if (thrown.code() != errc::forked_child) {
        return 3;
      }
    }
    try {
      pool.drain();
      return 4;
    } catch (const numapool::error& thrown) {
      if (thrown.code() != errc::forked_child) {
        return 5;
      }
    }
    pool.shutdown();
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pool.submit(node, [] { return 9; }), 9) << "the parent's pool goes on";
}

// Seen in a child whose parent had had a refusal: the thread that told it was the parent's, and the
// child's future never came.
TEST(ForkedChild, HearsOfARefusalThoughItsParentHadOne) {
  worker_pool pool;
  const node_id node = ask(pool).node;
  const request nothing{.size_bytes = 0, .node = node};
  EXPECT_THROW(pool.async_allocate(nothing, boost::asio::use_future).get(),
               boost::system::system_error);
  const int status = status_of_child([&] {
    try {
      static_cast<void>(pool.async_allocate(ask(pool), boost::asio::use_future).get());
      return 1;
    } catch (const numapool::error& thrown) {
      if (thrown.code() != errc::forked_child) {
        return 2;
      }
    }
    try {
      pool.submit(
              node, [] { return 1; }, boost::asio::use_future)
          .get();
      return 3;
    } catch (const numapool::error& thrown) {
      if (thrown.code() != errc::forked_child) {
        return 4;
      }
    }
    boost::asio::io_context io;
    boost::system::error_code told;
    pool.async_allocate(ask(pool),
                        boost::asio::bind_executor(io, [&](const boost::system::error_code& error,
                                                           const buffer&) { told = error; }));
    io.run();
    return told == errc::forked_child ? 0 : 5;
  });
  EXPECT_EQ(status, 0);
}

TEST(ForkedChild, ReleasesNothingWhenItDropsItsHandlesOrEnds) {
  worker_pool pool;
  buffer held = make_filled(pool);
  const std::uint64_t locked = test::status_bytes("VmLck");
  const int dropped = status_of_child([&] {
    held.reset();
    return static_cast<bool>(held) ? 1 : 0;
  });
  EXPECT_EQ(dropped, 0);
  EXPECT_EQ(status_of_child([] { return 0; }), 0);
  EXPECT_TRUE(is_intact(held));
  EXPECT_EQ(test::status_bytes("VmLck"), locked);
  EXPECT_EQ(test::area_of(held.data(), held.mapped_bytes()).bytes.at("Rss"), held.mapped_bytes());
}

TEST(ForkedChild, DestroysItsCopyOfThePoolWithoutTheParentsThreads) {
  auto pool = std::make_unique<worker_pool>();
  const node_id node = ask(*pool).node;
  pool->submit(node, [] {});
  EXPECT_EQ(status_of_child([&] {
              pool.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(pool->submit(node, [] { return 9; }), 9);
}

TEST(ForkedChild, HasNotTheBuffersPages) {
  worker_pool pool;
  const buffer held = make_filled(pool);
  const int areas = status_of_child(
      [&] { return test::area_of(held.data(), held.mapped_bytes()).begin == 0 ? 0 : 1; });
  EXPECT_EQ(areas, 0);
}

#ifndef __SANITIZE_THREAD__  // it ends a forked child of a threaded process that starts threads
TEST(ForkedChild, MayHaveAPoolOfItsOwn) {
  worker_pool pool;
  pool.submit(ask(pool).node, [] {});
  const int status = status_of_child([] {
    worker_pool own;
    return is_intact(make_filled(own)) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace numapool
