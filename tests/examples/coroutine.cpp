// SPDX-License-Identifier: Apache-2.0
// A coroutine gets a buffer. The request may be written inside the co_await expression: it is
// trivially destructible, so GCC 12's double destruction of such temporaries does it no harm.
#include <cstdio>
#include <exception>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <numapool/worker_pool.hpp>

namespace {

boost::asio::awaitable<void> fill_a_slab(numapool::worker_pool& pool, numapool::node_id node) {
  const numapool::buffer slab = co_await pool.async_allocate(
      {.size_bytes = 8U << 20U, .node = node, .bind = numapool::bind_policy::strict},
      boost::asio::use_awaitable);
  std::printf("%zu bytes on %s\n", slab.size_bytes(), to_string(slab.node_reached()).c_str());
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): an example
int main() {
  numapool::worker_pool pool;
  boost::asio::io_context context;
  int status = 1;
  boost::asio::co_spawn(context, fill_a_slab(pool, pool.topology().nodes().front().id),
                        [&status](const std::exception_ptr& error) { status = error ? 1 : 0; });
  context.run();
  return status;
}
