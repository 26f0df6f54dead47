// SPDX-License-Identifier: Apache-2.0
//
// Goal: where the process gets no thread at all, every call says no_workers, at once and without
// one. Method: real children under a filter that denies threads, one of them the command line.
// Seen with `ulimit -u`, `ulimit -v` and clone3 denied: refusals hung, or ended the process.

#include "support/threads_denied.hpp"

#include <cerrno>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numapool/worker_pool.hpp>

#include "support/child_status.hpp"
#include "system/cli_child.hpp"

namespace numapool {
namespace {

using test::deny_threads;
using test::status_of_child;

request ask(const worker_pool& pool, std::size_t size_bytes) {
  request what;
  what.size_bytes = size_bytes;
  what.node = pool.topology().nodes().front().id;
  return what;
}

template <typename Function>
bool throws(errc wanted, Function&& function) {
  try {
    function();
  } catch (const numapool::error& thrown) {
    return thrown.code() == wanted;
  }
  return false;
}

int tell_every_refusal(unsigned short error_number) {
  if (!deny_threads(error_number)) {
    return 99;
  }
  worker_pool pool;
  const request fine = ask(pool, 4096);
  const request nothing = ask(pool, 0);
  const auto future_of = [&pool](const request& what) {
    static_cast<void>(pool.async_allocate(what, boost::asio::use_future).get());
  };
  if (!throws(errc::no_workers, [&] { static_cast<void>(pool.allocate(fine)); })) {
    return 1;
  }
  if (!throws(errc::zero_size, [&] { static_cast<void>(pool.allocate(nothing)); })) {
    return 2;
  }
  if (!throws(errc::no_workers, [&] { future_of(fine); })) {
    return 3;
  }
  if (!throws(errc::zero_size, [&] { future_of(nothing); })) {
    return 4;
  }
  boost::asio::io_context io;
  boost::system::error_code told;
  pool.async_allocate(
      fine, boost::asio::bind_executor(
                io, [&](const boost::system::error_code& error, const buffer& none) {
                  told = none.why().cause.value() == error_number ? error : none.why().cause;
                }));
  io.run();
  return told == errc::no_workers ? 0 : 5;
}

TEST(ThreadsDenied, EveryRefusalIsTold) {
  EXPECT_EQ(status_of_child([] { return tell_every_refusal(EAGAIN); }), 0);
  EXPECT_EQ(status_of_child([] { return tell_every_refusal(EPERM); }), 0) << "a filter's answer";
}

#ifndef __SANITIZE_THREAD__  // it starts a thread of its own in every program
int run_denied(const std::vector<std::string>& words, const char* code) {
  if (!deny_threads(EAGAIN)) {
    return 99;
  }
  const auto result = tests::run_cli(words);
  if (result.status != 1) {
    return 1;
  }
  return nlohmann::json::parse(result.out).at("error").at("code") == code ? 0 : 2;
}

TEST(ThreadsDenied, TheCommandLineSaysSo) {
  EXPECT_EQ(
      status_of_child([] {
        return run_denied({"allocate", "--node", "0", "--size", "4KiB", "--json"}, "no_workers");
      }),
      0);
  EXPECT_EQ(status_of_child([] {
              return run_denied({"allocate", "--node", "0", "--size", "0", "--json"}, "zero_size");
            }),
            0);
}
#endif

}  // namespace
}  // namespace numapool
