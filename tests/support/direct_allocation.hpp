// SPDX-License-Identifier: Apache-2.0
#pragma once

// One allocation carried through its steps on the calling thread, as a node's only worker would: no
// pool, no queue.

#include <optional>

#include <numapool/buffer.hpp>

#include "memory/allocation.hpp"
#include "support/fake_machine.hpp"

namespace numapool::test {

/// The outcome of one request: a buffer, or why there is none.
struct outcome {
  buffer result;
  failure why;
};

struct direct_options {
  numapool::route route = route::node_workers;
  bool pinned = true;  ///< the worker runs on its node's CPUs
  std::optional<std::size_t> reserve_bytes;
};

inline outcome allocate(fake_machine& machine, const request& what,
                        const direct_options& options = {}) {
  auto& platform = machine.platform();
  const topology& nodes = *machine.nodes();
  outcome done;
  done.why =
      memory::allocation::validate(nodes, what, options.route, platform.memory.page_size_bytes());
  if (done.why) {
    return done;
  }
  const node_id home = options.pinned ? nodes.nearest_usable_node(what.node) : node_id::unknown;
  static_cast<void>(machine.threads().set_affinity(
      home.is_unknown() ? nodes.allowed_cpus() : nodes.find(home)->usable_cpus));
  memory::admission admission(platform.files, nodes);
  memory::allocation steps({platform, nodes, admission, options.reserve_bytes}, what, options.route,
                           {home, 1, options.pinned});
  done.why = steps.prepare();
  for (std::size_t piece = 0; !done.why && piece < steps.piece_count(); ++piece) {
    done.why = steps.populate(piece);
  }
  if (!done.why) {
    done.why = steps.finish();
  }
  if (!done.why) {
    done.result = steps.take();
  }
  return done;
}

}  // namespace numapool::test
