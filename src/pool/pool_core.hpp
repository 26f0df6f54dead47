// SPDX-License-Identifier: Apache-2.0
#pragma once

// What worker_pool is made of: the workers of each node, the Asio context, and the allocations
// under way.

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include <boost/asio/execution_context.hpp>

#include <numapool/buffer.hpp>
#include <numapool/detail/submit.hpp>
#include <numapool/topology.hpp>
#include <numapool/worker_pool.hpp>

#include "base/mutex.hpp"
#include "device/device_chain.hpp"
#include "memory/admission.hpp"
#include "platform/platform.hpp"
#include "pool/node_workers.hpp"

namespace numapool::detail {

/// Where a request goes.
struct target {
  request what;  // its node resolved
  numapool::route route = numapool::route::node_workers;
  node_source source = node_source::unknown;  // what named the node of a device
  node_workers* workers = nullptr;
};

/// Allocations by node, for stats.
struct allocation_counts {
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> waiting{0};
};

class pool_core {
 public:
  pool_core(platform::platform& machine, std::shared_ptr<const topology> nodes,
            const worker_pool_options& options);
  /// Shuts down. In a forked child leaves everything as it is: the threads are the parent's.
  ~pool_core();
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;

  [[nodiscard]] platform::platform& machine() noexcept { return machine_; }
  [[nodiscard]] const topology& nodes() const noexcept { return *nodes_; }
  [[nodiscard]] memory::admission& admission() noexcept { return admission_; }
  [[nodiscard]] const worker_pool_options& options() const noexcept { return options_; }
  [[nodiscard]] bool is_forked_child() const noexcept;

  /// The workers that serve `node` (the nearest usable node's where it has none), started.
  /// `workers` is set on success.
  [[nodiscard]] failure find_workers(node_id node, node_workers*& workers);
  /// The unpinned workers of the plain routes, started.
  [[nodiscard]] failure find_unpinned_workers(node_workers*& workers);
  /// Says where `what` goes: its device's node where it names none.
  [[nodiscard]] failure resolve(const request& what, numapool::route route, target& found);
  /// The node of the request's device: where its memory should be. Initialises CUDA only if the
  /// request's pin would anyway, and nothing else says which GPU the ordinal is.
  /// bind_policy::strict takes no guess.
  [[nodiscard]] failure node_of_device(const request& what, node_id& node, node_source& source);

  /// An allocation that may start; `ready` is set on success.
  [[nodiscard]] failure prepare(const request& what, numapool::route route,
                                std::shared_ptr<allocation_task>& ready);
  /// See refusal.hpp.
  [[nodiscard]] node_workers* find_teller(node_workers* preferred);
  [[nodiscard]] node_workers* own_workers(const node_executor& executor) noexcept;
  /// The calling thread is one of this pool's.
  [[nodiscard]] bool is_worker() const noexcept;
  [[nodiscard]] allocation_counts& counts_of(const node_workers& workers) noexcept;

  /// One line to the caller's log, if there is one.
  void log(const std::string& line);
  [[nodiscard]] pool_stats stats() const;
  void drain();
  void shutdown() noexcept;

 private:
  struct group {
    group(platform::platform& machine, boost::asio::execution_context& context,
          workers_options options)
        : workers(machine, context, std::move(options)) {}
    node_workers workers;
    allocation_counts counts;
  };
  class context : public boost::asio::execution_context {
   public:
    void end() noexcept {
      shutdown();
      destroy();
    }
  };

  [[nodiscard]] device::ordinal_location locate(const request& what);
  [[nodiscard]] failure start_group(group& starting, node_workers*& workers);
  [[nodiscard]] unsigned default_workers(std::size_t usable_cpus) const noexcept;
  [[nodiscard]] std::chrono::nanoseconds allowed_spin(
      std::chrono::microseconds wanted) const noexcept;

  // Constant after construction: every node with usable CPUs has its group from the start; its
  // threads come later.
  platform::platform& machine_;
  const std::shared_ptr<const topology> nodes_;
  memory::admission admission_;
  const worker_pool_options options_;
  const std::uint64_t process_generation_;
  base::mutex log_mutex_;  // held while the caller's function runs; nothing else is taken under it
  context context_;
  std::map<node_id, std::unique_ptr<group>> groups_;
  std::unique_ptr<group> unpinned_;
  std::vector<group*> all_;  // those, unpinned_ last
};

}  // namespace numapool::detail

namespace numapool {

/// For tests and the pinned-storage front: pools over other machines, and allocations off the node
/// route.
struct pool_access {
  [[nodiscard]] static std::unique_ptr<worker_pool> make(platform::platform& machine,
                                                         std::shared_ptr<const topology> nodes,
                                                         const worker_pool_options& options);
  [[nodiscard]] static detail::pool_core& core(worker_pool& pool) noexcept { return *pool.core_; }
};

}  // namespace numapool
