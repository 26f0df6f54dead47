// SPDX-License-Identifier: Apache-2.0
#include <numapool/environment.hpp>
#include <numapool/pinned_storage.hpp>
#include <numapool/worker_pool.hpp>

#include "base/failures.hpp"
#include "pool/blocking.hpp"
#include "pool/pool_core.hpp"

namespace numapool {
namespace {

buffer allocate_storage(worker_pool& pool, std::size_t size_bytes, std::optional<int> device) {
  request what;
  what.size_bytes = size_bytes;
  what.device = device;
  what.timeout = worker_pool::default_timeout(size_bytes);
  detail::pool_core& core = pool_access::core(pool);
  route way = route::plain_gate_off;
  if (is_numa_enabled()) {
    node_id node;  // found again by the request itself, which then can say what named it
    node_source source = node_source::unknown;
    const bool is_known = device && !core.node_of_device(what, node, source);
    way = is_known ? route::node_workers : route::plain_node_unknown;
  }
  if (way != route::node_workers) {
    what.bind = bind_policy::none;
    what.verify = verify_policy::off;
  }
  return detail::allocate_and_wait(core, what, way);
}

}  // namespace

buffer make_pinned_storage(worker_pool& pool, std::size_t size_bytes, std::optional<int> device) {
  buffer result = allocate_storage(pool, size_bytes, device);
  if (result.why()) {
    base::raise(result.why());
  }
  return result;
}

buffer make_pinned_storage(std::size_t size_bytes, std::optional<int> device) {
  return make_pinned_storage(worker_pool::global(), size_bytes, device);
}

buffer make_pinned_storage(std::size_t size_bytes, std::optional<int> device,
                           boost::system::error_code& error) {
  buffer result = allocate_storage(worker_pool::global(), size_bytes, device);
  error = result.why().code;
  return result;
}

}  // namespace numapool
