// SPDX-License-Identifier: Apache-2.0
//
// A buffer by coroutine, with the request written where it is used. The coroutine goes on on its own io_context.

#include <cstdio>
#include <exception>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <numapool/worker_pool.hpp>

namespace {

boost::asio::awaitable<void> fill(numapool::worker_pool& pool, numapool::node_id node) {
  const numapool::buffer block = co_await pool.async_allocate(
      {.size_bytes = 32 << 20, .node = node, .verify = numapool::verify_policy::full}, boost::asio::use_awaitable);
  std::printf("%zu bytes, %.0f %% on node %u, pinned by %s\n", block.size_bytes(),
              block.placement().share_on_node * 100, node.value(), std::string(name(block.pin().obtained)).c_str());
}

}  // namespace

int main() {
  numapool::worker_pool pool;
  boost::asio::io_context context;
  int status = 0;
  boost::asio::co_spawn(context, fill(pool, pool.topology().nodes().front().id), [&](std::exception_ptr thrown) {
    try {
      if (thrown) {
        std::rethrow_exception(thrown);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      status = 1;
    }
  });
  context.run();
  return status;
}
