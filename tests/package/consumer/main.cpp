// SPDX-License-Identifier: Apache-2.0
// What a user's first program does: a buffer on a node, and where it came to lie.

#include <cstddef>
#include <cstdio>
#include <cstring>

#include <numapool/buffer.hpp>
#include <numapool/error.hpp>
#include <numapool/node.hpp>
#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

int main() {
  constexpr std::size_t size_bytes = std::size_t{4} << 20U;

  numapool::worker_pool pool;
  const numapool::node_id node = pool.topology().allowed_nodes().front();

  numapool::request what;
  what.size_bytes = size_bytes;
  what.node = node;
  what.pin =
      numapool::pin_policy::none;  // memlock limits of the machine are no matter of this test
  what.verify = numapool::verify_policy::full;
  const numapool::buffer memory = pool.allocate(what);
  std::memset(memory.data(), 1, memory.size_bytes());

  // An error arrives as numapool's own type across the library's border.
  bool refused = false;
  try {
    what.size_bytes = 0;
    (void)pool.allocate(what);
  } catch (const numapool::error& problem) {
    refused = problem.code() == numapool::errc::zero_size;
  }

  std::printf("%s: %zu bytes, %zu pages checked, %.0f %% on the node\n", to_string(node).c_str(),
              memory.size_bytes(), memory.placement().pages_checked,
              100 * memory.placement().share_on_node);
  return memory.size_bytes() == size_bytes && memory.node_requested() == node && refused ? 0 : 1;
}
