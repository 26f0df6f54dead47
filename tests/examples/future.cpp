// SPDX-License-Identifier: Apache-2.0
// A future gets a buffer; on an error its get() throws numapool::error, which says why.
#include <cstdio>
#include <exception>
#include <future>
#include <string>

#include <boost/asio/use_future.hpp>

#include <numapool/with_details.hpp>
#include <numapool/worker_pool.hpp>

int main() {
  try {
    numapool::worker_pool pool;
    const numapool::node_id node = pool.topology().nodes().front().id;
    std::future<numapool::buffer> later = pool.async_allocate(
        {.size_bytes = 8U << 20U, .node = node}, numapool::with_details(boost::asio::use_future));
    const numapool::buffer slab = later.get();
    std::printf("%zu bytes on %s\n", slab.size_bytes(), to_string(slab.node_reached()).c_str());
    return slab.node_reached() == node ? 0 : 1;
  } catch (const numapool::error& error) {
    std::printf("%s: %s\n", std::string(name(error.why().operation)).c_str(), error.what());
    return 1;
  } catch (const std::exception& error) {  // Asio's and the standard library's own
    std::printf("%s\n", error.what());
    return 1;
  }
}
