// SPDX-License-Identifier: Apache-2.0
//
// Two buffers by future: both are filled at once, and get() throws what went wrong.

#include <cstdio>
#include <exception>
#include <future>

#include <boost/asio/use_future.hpp>

#include <numapool/worker_pool.hpp>

int main() {
  try {
    numapool::worker_pool pool;
    const numapool::node_id node = pool.topology().nodes().front().id;
    std::future<numapool::buffer> first =
        pool.async_allocate({.size_bytes = 16 << 20, .node = node}, boost::asio::use_future);
    std::future<numapool::buffer> second =
        pool.async_allocate({.size_bytes = 16 << 20, .node = node}, boost::asio::use_future);
    const numapool::buffer a = first.get();
    const numapool::buffer b = second.get();
    return a.data() != b.data() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
