// SPDX-License-Identifier: Apache-2.0
// A future gets a buffer; on an error its get() throws boost::system::system_error.
#include <cstdio>
#include <future>

#include <boost/asio/use_future.hpp>

#include <numapool/worker_pool.hpp>

int main() {
  numapool::worker_pool pool;
  const numapool::node_id node = pool.topology().nodes().front().id;
  std::future<numapool::buffer> later =
      pool.async_allocate({.size_bytes = 8U << 20U, .node = node}, boost::asio::use_future);
  try {
    const numapool::buffer slab = later.get();
    std::printf("%zu bytes on %s\n", slab.size_bytes(), to_string(slab.node_reached()).c_str());
    return slab.node_reached() == node ? 0 : 1;
  } catch (const boost::system::system_error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
