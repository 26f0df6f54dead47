// SPDX-License-Identifier: Apache-2.0
// A callback gets a buffer, on a worker of the node. On an error the buffer is empty and has why().
#include <cstdio>
#include <future>
#include <utility>

#include <numapool/worker_pool.hpp>

int main() {
  numapool::worker_pool pool;
  const numapool::node_id node = pool.topology().nodes().front().id;
  std::promise<numapool::buffer> delivered;
  pool.async_allocate({.size_bytes = 8U << 20U, .node = node},
                      [&delivered](boost::system::error_code error, numapool::buffer slab) {
                        if (error) {
                          std::printf("%s\n", slab.why().message.c_str());
                        }
                        delivered.set_value(std::move(slab));
                      });
  const numapool::buffer slab = delivered.get_future().get();
  std::printf("%zu bytes on %s\n", slab.size_bytes(), to_string(slab.node_reached()).c_str());
  return slab && slab.node_reached() == node ? 0 : 1;
}
