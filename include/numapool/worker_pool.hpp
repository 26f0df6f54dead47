// SPDX-License-Identifier: Apache-2.0
#pragma once

// Per node a group of worker threads, pinned to the node's CPUs, behind Boost.Asio executors; and
// the allocation of placed, resident, pinned buffers by them. Start here.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>

#include <numapool/buffer.hpp>
#include <numapool/detail/node_executor.hpp>
#include <numapool/detail/submit.hpp>
#include <numapool/error.hpp>
#include <numapool/node.hpp>
#include <numapool/topology.hpp>

namespace numapool {

struct worker_pool_options {
  /// Threads a node; 0: the usable CPUs of the node, at most the cgroup's CPU quota, at most 16
  /// (above that, registering is the longer part: see README, Performance).
  unsigned workers_per_node = 0;
  /// Kept free on a node by admission; empty: 2 % of its memory, at least 512 MiB, never more than
  /// an eighth of it.
  std::optional<std::size_t> reserve_bytes = std::nullopt;
  /// Called with one line for each thing that degraded and why; empty: nothing. On any thread, not
  /// at once on two.
  void (*log)(const char* line) = nullptr;
  /// How long a worker without work, and a caller of the blocking submit(), look for what they wait
  /// for before they sleep. To sleep and be woken takes some 5 to 10 us each; a spin that catches
  /// it takes less than one, and burns that much CPU time, and CPU quota, after each piece of work.
  /// 0: they sleep at once, which is right for work of milliseconds. More than spin_max counts as
  /// that; where the process may use one CPU alone nobody spins.
  std::chrono::microseconds worker_spin{0};
  std::chrono::microseconds caller_spin{0};
  static constexpr std::chrono::microseconds spin_max{1000};
};

/// One node's workers and what they did since the pool was made. The entry with the unknown node is
/// the group of unpinned threads behind the plain path.
struct node_stats {
  node_id node;
  unsigned workers = 0;                   ///< running now; 0 before the first use
  unsigned workers_wanted = 0;            ///< what the options or their default asked for
  unsigned workers_pinned = 0;            ///< whose CPU mask, read back, lies inside the node
  boost::system::error_code start_error;  ///< why fewer run, or why one is not pinned
  std::uint64_t jobs_done = 0;            ///< functions run, not counting pieces of allocations
  std::uint64_t jobs_waiting = 0;         ///< functions queued now
  std::uint64_t allocations_done = 0;
  std::uint64_t allocations_failed = 0;
  std::uint64_t allocations_waiting = 0;  ///< under way now
};
struct pool_stats {
  std::vector<node_stats> nodes;  ///< nodes with usable CPUs, by id; then the unpinned group
  // Of all buffers of the process, whichever pool made them:
  std::uint64_t buffers_live = 0;
  std::uint64_t bytes_mapped = 0;
  std::uint64_t bytes_registered = 0;  ///< known to CUDA
  std::uint64_t release_failures =
      0;  ///< ranges that CUDA or the kernel refused to take back, still mapped
};

/// The workers of all nodes.
///
/// Threads: every member may be called by any number of threads at once, except shutdown() and the
/// destructor, which wait for the others to have returned. Threads are started, all of a node
/// together, on the first use of that node, and named "numapool-<node>". They keep to the CPUs of
/// their node that the process may use, and their current CUDA device is not kept.
/// fork: a child has no workers; every call in it that would need one fails with
/// errc::forked_child.
/// Asynchronous calls that are refused at once complete later like any other, where the handler's
/// executor or a worker can do it. Where there is neither (no thread could be started, after
/// shutdown(), in a forked child), nobody would ever run the handler: the call itself throws the
/// numapool::error, and the handler is destroyed unrun. A future brings no executor.
class worker_pool {
 public:
  /// For this machine. Errors: errc::topology_unavailable. Starts no thread.
  explicit worker_pool(const worker_pool_options& options = {});

  /// In this order: takes no more work; completes what has not started with errc::pool_shut_down
  /// (allocations) or drops them unrun (functions; a submit() completes with errc::pool_shut_down);
  /// lets running functions and running allocations end; joins the threads; destroys the Asio
  /// services. Buffers stay valid. Blocks. Requires: not called on one of its own workers (checked,
  /// aborts).
  ~worker_pool();
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  /// The process-wide pool with default options, made on first use and never destroyed.
  [[nodiscard]] static worker_pool& global();

  /// What the pool works from.
  [[nodiscard]] const numapool::topology& topology() const noexcept;

  using executor_type = node_executor;
  /// An Asio executor (blocking.never by default; blocking.possibly runs inline on that node's own
  /// workers). Functions of at most 64 bytes are queued without a heap allocation. A function that
  /// throws ends the process, as with asio::thread_pool; submit() is the form that carries
  /// exceptions. Valid as long as the pool. A node without usable CPUs is served by the nearest one
  /// that has some.
  /// Errors: errc::unknown_node, errc::no_workers, errc::pool_shut_down, errc::forked_child. Starts
  /// the node's threads.
  [[nodiscard]] executor_type executor(node_id node);

  /// Allocates `what` on its node's workers: admits, maps, binds, fills in parallel, verifies, pins
  /// (buffer.hpp says what each field asks for). Blocks. Errors, with nothing left behind: any errc
  /// but malformed_list; the throwing form's numapool::error has the details, the other form's
  /// empty buffer has them in why(). errc::called_from_worker on a worker of this pool.
  [[nodiscard]] buffer allocate(const request& what);
  [[nodiscard]] buffer allocate(const request& what, boost::system::error_code& error);

  /// The same without blocking, under any Asio completion token for void(boost::system::error_code,
  /// buffer); on an error the buffer is empty and its why() has the details. What throws instead (a
  /// future, a plain use_awaitable) throws a boost::system::system_error, which has the code alone;
  /// under with_details(token) (with_details.hpp) it is a numapool::error with all of why().
  /// Completes on the token's executor, by default on a worker of the node; never inside this call.
  /// Throws what nobody could be told otherwise (see the class), and std::bad_alloc.
  /// A result that nobody takes frees itself.
  /// Cancellation: terminal and total, looked at between pieces of at most 32 MiB; errc::cancelled
  /// with everything undone.
  /// Requires: the pool lives until the operation has completed; so does the context of the token's
  /// executor, and somebody runs it.
  template <typename CompletionToken>
  auto async_allocate(const request& what, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, void(boost::system::error_code, buffer)>(
        detail::initiate_allocation{}, token, core_.get(), what);
  }

  /// Runs `function` on a worker of `node` and delivers its result: void(std::exception_ptr, R), or
  /// void(std::exception_ptr) when it returns nothing. Its exception, or a numapool::error with the
  /// codes of executor(), reaches the token, or is thrown (see the class). R must be
  /// default-constructible and movable.
  /// `function` is moved to, invoked on and destroyed on the worker. Inside a co_await expression
  /// name the function first: GCC 12 destroys a capturing lambda written there twice.
  template <typename Function, typename CompletionToken>
  auto submit(node_id node, Function function, CompletionToken&& token) {
    using result = std::invoke_result_t<Function&>;
    return boost::asio::async_initiate<CompletionToken,
                                       typename detail::submit_signature<result>::type>(
        detail::initiate_submit{}, token, core_.get(), node, std::move(function));
  }
  /// The same, blocking: returns the result, throws the exception. On a worker of that node it runs
  /// at once, inline. No heap allocation.
  template <typename Function>
  auto submit(node_id node, Function&& function) -> std::invoke_result_t<Function&> {
    return detail::submit_and_wait(*core_, node, function);
  }

  /// dynamo's call: pinned memory for a GPU (process-local CUDA ordinal), on that GPU's node, for
  /// that GPU. Its deadline: 10 s + 1 s a GiB within 10..300 s, but never less than 2 s a GiB, from
  /// the start of work.
  /// Errors as allocate(); errc::unknown_node when the device's node is unknown.
  [[nodiscard]] buffer allocate_pinned_for_gpu(std::size_t size_bytes, int device);
  [[nodiscard]] buffer allocate_pinned_for_gpu(std::size_t size_bytes, int device,
                                               boost::system::error_code& error);
  /// That deadline.
  [[nodiscard]] static std::chrono::milliseconds default_timeout(std::size_t size_bytes) noexcept;

  [[nodiscard]] pool_stats stats() const;

  /// Returns when everything that was accepted before the call has completed.
  /// errc::called_from_worker on a worker, errc::forked_child in a child.
  void drain();
  /// The destructor's first four steps. Idempotent.
  void shutdown() noexcept;

 private:
  friend struct pool_access;  // src/pool/: tests and the front build pools over other platforms
  explicit worker_pool(std::unique_ptr<detail::pool_core> core) noexcept;
  std::unique_ptr<detail::pool_core> core_;
};

}  // namespace numapool
