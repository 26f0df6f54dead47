// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <numapool/worker_pool.hpp>

#include "base/failures.hpp"
#include "pool/blocking.hpp"
#include "pool/pool_core.hpp"

namespace numapool {

worker_pool::worker_pool(const worker_pool_options& options)
    : core_(std::make_unique<detail::pool_core>(platform::this_machine(), topology::system(),
                                                options)) {}

worker_pool::worker_pool(std::unique_ptr<detail::pool_core> core) noexcept
    : core_(std::move(core)) {}

worker_pool::~worker_pool() {
  if (core_->is_forked_child()) {
    static_cast<void>(
        core_.release());  // its threads and locks are the parent's, in whatever state they were
  }
}

worker_pool& worker_pool::global() {
  static worker_pool& pool = *new worker_pool;
  return pool;
}

const topology& worker_pool::topology() const noexcept {
  return core_->nodes();
}

node_executor worker_pool::executor(node_id node) {
  return detail::executor_of(detail::workers_of(*core_, node));
}

buffer worker_pool::allocate(const request& what) {
  buffer result = detail::allocate_and_wait(*core_, what, route::node_workers);
  if (result.why()) {
    base::raise(result.why());
  }
  return result;
}

buffer worker_pool::allocate(const request& what, boost::system::error_code& error) {
  buffer result = detail::allocate_and_wait(*core_, what, route::node_workers);
  error = result.why().code;
  return result;
}

namespace {

request request_for_gpu(std::size_t size_bytes, int device) {
  request what;
  what.size_bytes = size_bytes;
  what.device = device;
  what.timeout = worker_pool::default_timeout(size_bytes);
  return what;
}

}  // namespace

buffer worker_pool::allocate_pinned_for_gpu(std::size_t size_bytes, int device) {
  return allocate(request_for_gpu(size_bytes, device));
}

buffer worker_pool::allocate_pinned_for_gpu(std::size_t size_bytes, int device,
                                            boost::system::error_code& error) {
  return allocate(request_for_gpu(size_bytes, device), error);
}

// The floor of 0.5 GiB/s is under every public figure for pinning (the slowest: 398 s for 500 GB);
// dynamo's ceiling of 300 s is below what such a request needs, so it always failed.
std::chrono::milliseconds worker_pool::default_timeout(std::size_t size_bytes) noexcept {
  const auto whole_gib = static_cast<std::int64_t>(size_bytes >> 30U);
  const std::chrono::seconds dynamo(std::clamp<std::int64_t>(10 + whole_gib, 10, 300));
  const std::chrono::seconds needed(2 * whole_gib);
  return std::max(dynamo, needed);
}

pool_stats worker_pool::stats() const {
  return core_->stats();
}
void worker_pool::drain() {
  core_->drain();
}
void worker_pool::shutdown() noexcept {
  core_->shutdown();
}

std::unique_ptr<worker_pool> pool_access::make(platform::platform& machine,
                                               std::shared_ptr<const topology> nodes,
                                               const worker_pool_options& options) {
  return std::unique_ptr<worker_pool>(
      new worker_pool(std::make_unique<detail::pool_core>(machine, std::move(nodes), options)));
}

}  // namespace numapool
