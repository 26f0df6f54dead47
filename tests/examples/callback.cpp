// SPDX-License-Identifier: Apache-2.0
//
// A buffer by callback: it is called on a worker of the buffer's node, so that the first look at the memory is a near one.

#include <cstdio>
#include <latch>

#include <numapool/worker_pool.hpp>

int main() {
  numapool::worker_pool pool;
  const numapool::node_id node = pool.topology().nodes().front().id;
  numapool::buffer staging;
  std::latch done(1);
  pool.async_allocate({.size_bytes = 16 << 20, .node = node},
                      [&](const boost::system::error_code& error, numapool::buffer made) {
                        if (error) {
                          std::fprintf(stderr, "%s\n", made.why().message.c_str());
                        }
                        staging = std::move(made);
                        done.count_down();
                      });
  done.wait();
  return staging ? 0 : 1;
}
