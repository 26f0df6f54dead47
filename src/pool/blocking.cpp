// SPDX-License-Identifier: Apache-2.0
#include "pool/blocking.hpp"

#include <chrono>
#include <memory>
#include <utility>

#include "pool/allocation_task.hpp"

namespace numapool::detail {
namespace {

buffer refused(const request& what, errc code, const char* message) {
  return failed_buffer({code, operation::start_workers, what.node, what.size_bytes, {}, message});
}

}  // namespace

buffer allocate_and_wait(pool_core& pool, const request& what, numapool::route route) {
  if (pool.is_forked_child()) {
    return refused(
        what, errc::forked_child,
        "the pool's threads stayed in the parent process: make a worker_pool of the child's own");
  }
  if (pool.is_worker()) {
    return refused(
        what, errc::called_from_worker,
        "allocate() was called on a worker, which could wait for itself: use async_allocate()");
  }
  std::shared_ptr<allocation_task> task;
  if (failure why = pool.prepare(what, route, task)) {
    return failed_buffer(std::move(why));
  }
  buffer result;
  wait_point done;
  task->start(allocation_handler([&](boost::system::error_code, buffer delivered) {
    result = std::move(delivered);
    done.signal();
  }));
  done.wait(std::chrono::nanoseconds(0));  // filling memory takes longer than any spin
  return result;
}

}  // namespace numapool::detail
