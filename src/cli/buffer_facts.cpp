// SPDX-License-Identifier: Apache-2.0
#include "cli/buffer_facts.hpp"

namespace numapool::cli {

buffer_facts facts_of(const buffer& from) {
  buffer_facts facts;
  facts.address = reinterpret_cast<std::uintptr_t>(from.data());
  facts.requested_bytes = from.size_bytes();
  facts.mapped_bytes = from.mapped_bytes();
  facts.node_requested = from.node_requested();
  facts.node_source = from.node_source();
  facts.node_reached = from.node_reached();
  facts.node_of_workers = from.node_of_workers();
  facts.workers = from.workers();
  facts.device = from.device();
  facts.route = from.route();
  facts.placement = from.placement();
  facts.pages = from.pages();
  facts.policy = from.policy();
  facts.pin = from.pin();
  facts.timings = from.timings();
  facts.registrations.assign(from.registrations().begin(), from.registrations().end());
  return facts;
}

}  // namespace numapool::cli
