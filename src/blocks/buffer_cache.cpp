// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <numapool/buffer_cache.hpp>

#include "base/failures.hpp"
#include "blocks/cache_core.hpp"

namespace numapool {
namespace {

detail::cache_core::time_point steady_now() noexcept {
  return std::chrono::steady_clock::now();
}

std::shared_ptr<detail::cache_core> make_core(worker_pool& pool,
                                              const buffer_cache_options& options,
                                              detail::cache_core::time_source now) {
  if (options.max_age.count() < 0 || !(options.pressure_limit_percent >= 0)) {
    base::raise(base::make_failure(errc::invalid_option, operation::none,
                                   "asked for a cache with an age or a pressure limit below zero: "
                                   "0 means that it is not looked at"));
  }
  return std::make_shared<detail::cache_core>(pool_access::core(pool), options, now);
}

}  // namespace

buffer_cache::buffer_cache(worker_pool& pool, const buffer_cache_options& options)
    : core_(make_core(pool, options, steady_now)) {}
buffer_cache::buffer_cache(std::shared_ptr<detail::cache_core> core) noexcept
    : core_(std::move(core)) {}
buffer_cache::~buffer_cache() {
  core_->trim(0);  // operations under way hold the rest
}

std::unique_ptr<buffer_cache> cache_access::make(worker_pool& pool,
                                                 const buffer_cache_options& options,
                                                 detail::cache_core::time_source now) {
  return std::unique_ptr<buffer_cache>(new buffer_cache(make_core(pool, options, now)));
}

buffer buffer_cache::take(const request& what, contents wanted) {
  buffer result = core_->take(what, wanted);
  if (result.why()) {
    base::raise(result.why());
  }
  return result;
}

buffer buffer_cache::take(const request& what, boost::system::error_code& error, contents wanted) {
  buffer result = core_->take(what, wanted);
  error = result.why().code;
  return result;
}

void buffer_cache::give(buffer&& done_with) noexcept {
  core_->give(std::move(done_with));
}
std::size_t buffer_cache::trim(std::size_t keep_bytes) noexcept {
  return core_->trim(keep_bytes);
}
std::size_t buffer_cache::trim_older_than(std::chrono::nanoseconds age) noexcept {
  return core_->trim_older_than(age);
}
void buffer_cache::clear() noexcept {
  core_->trim(0);
}
buffer_cache_stats buffer_cache::stats() const noexcept {
  return core_->stats();
}

}  // namespace numapool
