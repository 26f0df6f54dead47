// SPDX-License-Identifier: Apache-2.0
#include "pool/pool_core.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <numapool/device.hpp>

#include "base/check.hpp"
#include "base/failures.hpp"
#include "base/futex.hpp"
#include "base/spin.hpp"
#include "device/device_chain.hpp"
#include "memory/allocation.hpp"
#include "memory/buffer_state.hpp"
#include "pool/allocation_task.hpp"

namespace numapool::detail {
namespace {

constexpr unsigned workers_max =
    16;  // above that registering is the longer part (public measurements, README)

/// The device's own node where it is a host's and this process may take its memory, though not its
/// CPUs; else the nearest with CPUs. A GPU's own memory is no host memory.
node_id memory_node_of(const topology& nodes, const device_location& where) {
  const node_info* const reported = nodes.find(where.reported_node);
  const bool is_host = reported != nullptr && !reported->cpus.empty() && reported->allowed_memory;
  return is_host ? reported->id : where.node;
}

failure forked_child(node_id node) {
  return {errc::forked_child,
          operation::start_workers,
          node,
          0,
          {},
          "the pool's threads stayed in the parent process: make a worker_pool of the child's own"};
}

}  // namespace

pool_core::pool_core(platform::platform& machine, std::shared_ptr<const topology> nodes,
                     const worker_pool_options& options)
    : machine_(machine),
      nodes_(std::move(nodes)),
      admission_(machine.files, *nodes_),
      options_(options),
      process_generation_(machine.threads.process_generation()) {
  const auto options_for = [this](node_id node, const cpu_set& cpus, std::size_t usable) {
    return workers_options{
        node,
        cpus,
        options_.workers_per_node != 0 ? options_.workers_per_node : default_workers(usable),
        [this](const std::string& line) { log(line); },
        allowed_spin(options_.worker_spin),
        allowed_spin(options_.caller_spin)};
  };
  for (const node_info& node : nodes_->nodes()) {
    if (!node.usable_cpus.empty()) {
      groups_.emplace(node.id, std::make_unique<group>(machine_, context_,
                                                       options_for(node.id, node.usable_cpus,
                                                                   node.usable_cpus.size())));
    }
  }
  unpinned_ = std::make_unique<group>(
      machine_, context_, options_for(node_id::unknown, {}, nodes_->allowed_cpus().size()));
  for (const auto& entry : groups_) {
    all_.push_back(entry.second.get());
  }
  all_.push_back(unpinned_.get());
}

pool_core::~pool_core() {
  shutdown();
  context_.end();
}

bool pool_core::is_forked_child() const noexcept {
  return machine_.threads.process_generation() != process_generation_;
}

unsigned pool_core::default_workers(std::size_t usable_cpus) const noexcept {
  std::size_t wanted = std::min<std::size_t>(usable_cpus, workers_max);
  if (const auto quota = nodes_->cpu_quota()) {
    wanted = std::min(wanted, static_cast<std::size_t>(std::max(*quota, 1.0)));
  }
  return static_cast<unsigned>(std::max<std::size_t>(wanted, 1));
}

// On one CPU whoever is waited for cannot run meanwhile.
std::chrono::nanoseconds pool_core::allowed_spin(std::chrono::microseconds wanted) const noexcept {
  return nodes_->allowed_cpus().size() < 2
             ? std::chrono::nanoseconds(0)
             : std::clamp(wanted, std::chrono::microseconds(0), worker_pool_options::spin_max);
}

failure pool_core::find_workers(node_id node, node_workers*& workers) {
  if (is_forked_child()) {
    return forked_child(node);
  }
  if (nodes_->find(node) == nullptr) {
    return {errc::unknown_node,
            operation::resolve,
            node,
            0,
            {},
            "asked for " + to_string(node) + ", which this machine has not"};
  }
  const auto entry = groups_.find(nodes_->nearest_usable_node(node));
  if (entry == groups_.end()) {
    return {errc::no_workers,
            operation::start_workers,
            node,
            0,
            {},
            "this process may run on no CPU of any node (allowed: \"" +
                nodes_->allowed_cpus().to_list() + "\")"};
  }
  return start_group(*entry->second, workers);
}

failure pool_core::find_unpinned_workers(node_workers*& workers) {
  if (is_forked_child()) {
    return find_workers(node_id::unknown, workers);  // says why
  }
  return start_group(*unpinned_, workers);
}

failure pool_core::start_group(group& starting, node_workers*& workers) {
  failure why = starting.workers.start();
  if (!why) {
    workers = &starting.workers;
  }
  return why;
}

device::ordinal_location pool_core::locate(const request& what) {
  const device::device_sources sources = device::sources_of(machine_, *nodes_);
  device_options options;
  options.allow_heuristic = what.bind != bind_policy::strict;
  device::ordinal_location found = device::locate_ordinal(sources, *what.device, options);
  const bool may_ask_cuda = what.pin == pin_policy::automatic || what.pin == pin_policy::cuda;
  if (found.where.address || !may_ask_cuda) {
    return found;
  }
  // The pin will initialise CUDA in any case, and CUDA knows which GPU it means.
  std::string text;
  if (const auto error = machine_.registrar.pci_address(*what.device, text)) {
    found.error = error;
    found.where.reason += "; CUDA cannot say: " + error.message();
  } else if (const auto address = device::address_of_name(text)) {
    found.is_shown = true;
    found.where = device::locate(sources, {address, {}, what.device}, options);
  }
  return found;
}

failure pool_core::node_of_device(const request& what, node_id& node, node_source& source) {
  const device::ordinal_location found = locate(what);
  const device_location& where = found.where;
  const std::string device = "CUDA device " + std::to_string(*what.device);
  if (!found.is_shown) {
    return {errc::unknown_device,
            operation::resolve,
            node_id::unknown,
            0,
            found.error,
            "nothing here can say where " + device + " is: " + where.reason +
                "; name the node instead"};
  }
  if (where.node.is_unknown()) {
    return {errc::unknown_node,
            operation::resolve,
            node_id::unknown,
            0,
            found.error,
            "the node of " + device +
                (where.address ? " (" + to_string(*where.address) + ")" : "") +
                " is not known: " + where.reason + "; name the node instead"};
  }
  if (where.source == node_source::heuristic) {
    log(device + ": " + to_string(where.node) + " is taken, which is a guess (" + where.reason +
        ")");
  }
  node = memory_node_of(*nodes_, where);
  source = where.source;
  return {};
}

failure pool_core::resolve(const request& what, numapool::route route, target& found) {
  found.what = what;
  found.route = route;
  if (route == numapool::route::node_workers && what.node.is_unknown() && what.device) {
    if (failure why = node_of_device(what, found.what.node, found.source)) {
      why.size_bytes = what.size_bytes;
      return why;
    }
  }
  failure why =
      memory::allocation::validate(*nodes_, found.what, route, machine_.memory.page_size_bytes());
  if (!why) {
    why = route == numapool::route::node_workers ? find_workers(found.what.node, found.workers)
                                                 : find_unpinned_workers(found.workers);
    why.size_bytes = what.size_bytes;
  }
  return why;
}

node_workers* pool_core::find_teller(node_workers* preferred) {
  if (is_forked_child()) {
    return nullptr;
  }
  if (preferred != nullptr && preferred->takes_more()) {
    return preferred;
  }
  const auto first = [this](auto accepts) -> node_workers* {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](group* one) { return accepts(one->workers); });
    return found == all_.end() ? nullptr : &(*found)->workers;
  };
  // One that the caller is a worker of serves it even while the pool shuts down.
  if (node_workers* const here = first([](node_workers& one) { return one.runs_here(); })) {
    return here;
  }
  if (node_workers* const any = first([](node_workers& one) { return one.takes_more(); })) {
    return any;
  }
  return first([](node_workers& one) { return !one.start(); });
}

node_workers* pool_core::own_workers(const node_executor& executor) noexcept {
  for (group* const one : all_) {
    if (executor == one->workers.executor() ||
        executor == one->workers.executor().require(boost::asio::execution::blocking.possibly)) {
      return &one->workers;
    }
  }
  return nullptr;
}

failure pool_core::prepare(const request& what, numapool::route route,
                           std::shared_ptr<allocation_task>& ready) {
  auto task = std::make_shared<allocation_task>(*this, what, route);
  failure why = task->prepare();
  if (!why) {
    ready = std::move(task);
  }
  return why;
}

bool pool_core::is_worker() const noexcept {
  return std::any_of(all_.begin(), all_.end(),
                     [](const group* one) { return one->workers.runs_here(); });
}

allocation_counts& pool_core::counts_of(const node_workers& workers) noexcept {
  const auto entry = groups_.find(workers.node());
  return entry == groups_.end() ? unpinned_->counts : entry->second->counts;
}

void pool_core::log(const std::string& line) {
  if (options_.log != nullptr) {
    const base::lock_guard lock(log_mutex_);
    options_.log(line.c_str());
  }
}

pool_stats pool_core::stats() const {
  pool_stats all;
  const auto add = [&all](const group& of) {
    node_stats& stats = all.nodes.emplace_back();
    of.workers.add_to(stats);
    stats.allocations_done = of.counts.done.load(std::memory_order_relaxed);
    stats.allocations_failed = of.counts.failed.load(std::memory_order_relaxed);
    stats.allocations_waiting = of.counts.waiting.load(std::memory_order_relaxed);
  };
  for (const group* const one : all_) {
    add(*one);
  }
  const memory::buffer_totals totals = memory::current_totals();
  all.buffers_live = totals.buffers_live;
  all.bytes_mapped = totals.bytes_mapped;
  all.bytes_registered = totals.bytes_registered;
  all.release_failures = totals.release_failures;
  return all;
}

// Twice: an allocation that names a device starts on one node's workers and goes on on another's.
void pool_core::drain() {
  if (is_forked_child()) {
    base::raise(forked_child(node_id::unknown));  // the parent's locks, in whatever state they were
  }
  if (is_worker()) {
    base::raise({errc::called_from_worker,
                 operation::none,
                 node_id::unknown,
                 0,
                 {},
                 "drain() was called on a worker, which would wait for itself"});
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (group* const one : all_) {
      one->workers.wait_idle();
    }
  }
}

void pool_core::shutdown() noexcept {
  if (is_forked_child()) {
    return;
  }
  NUMAPOOL_CHECK(!is_worker());
  for (group* const one : all_) {
    one->workers.stop();
  }
  for (group* const one : all_) {
    one->workers.join();
  }
}

// What the public templates call.

failure prepare_allocation(pool_core& pool, const request& what,
                           std::shared_ptr<allocation_task>& ready) {
  return pool.prepare(what, numapool::route::node_workers, ready);
}

void start_allocation(const std::shared_ptr<allocation_task>& ready, allocation_handler handler) {
  ready->start(std::move(handler));
}

buffer failed_buffer(failure why) {
  return memory::buffer_state::to_buffer(std::make_unique<memory::buffer_state>(std::move(why)));
}

node_workers* find_teller(pool_core& pool, node_workers* preferred) {
  return pool.find_teller(preferred);
}

node_workers* own_workers(pool_core& pool, const node_executor& executor) noexcept {
  return pool.own_workers(executor);
}

failure find_workers(pool_core& pool, node_id node, node_workers*& workers) {
  return pool.find_workers(node, workers);
}

node_workers& workers_of(pool_core& pool, node_id node) {
  node_workers* workers = nullptr;
  if (failure why = pool.find_workers(node, workers)) {
    base::raise(std::move(why));
  }
  return *workers;
}

std::exception_ptr shut_down_error() noexcept {
  return std::make_exception_ptr(error({errc::pool_shut_down,
                                        operation::none,
                                        node_id::unknown,
                                        0,
                                        {},
                                        "the pool shut down before the function ran"}));
}

std::exception_ptr exception_of(boost::system::error_code error, const buffer& delivered) noexcept {
  if (!error) {
    return nullptr;
  }
  try {
    failure why = delivered.why();
    why.code = error;
    return std::make_exception_ptr(numapool::error(std::move(why)));
  } catch (...) {
    return std::current_exception();  // no memory for the details
  }
}

// The waiter may destroy this as soon as it sees the flag: what is done then is by address alone.
// Under a mutex the waiter would be woken only to sleep again until the lock is free.
void wait_point::signal() noexcept {
  if (state_.exchange(signalled, std::memory_order_acq_rel) == asleep) {
    base::futex_wake(state_, 1);
  }
}

void wait_point::wait(std::chrono::nanoseconds spin) noexcept {
  const auto is_signalled = [this] {
    return state_.load(std::memory_order_acquire) == signalled;
  };
  if (spin.count() != 0 && base::spin_until(is_signalled, spin)) {
    return;
  }
  int expected = waiting;
  if (!state_.compare_exchange_strong(expected, asleep, std::memory_order_acq_rel)) {
    return;
  }
  while (!is_signalled()) {
    base::futex_wait(state_, asleep);
  }
}

}  // namespace numapool::detail
