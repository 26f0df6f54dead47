// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can go wrong, as one enumeration, one error category and one exception type. Bugs of the caller do not appear
// here: they abort by a check that stays on. Threads: values; safe.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <numapool/node.hpp>

namespace numapool {

/// Every error that numapool reports, by what the caller can do about it. README.md has the table with the remedies.
enum class errc {
  // The request itself.
  zero_size = 1,        ///< zero bytes were asked for
  size_overflow,        ///< the size, rounded to pages, does not fit the address space
  unknown_node,         ///< no such node, the unknown node, or a device whose node is not known
  node_not_allowed,     ///< the node exists, but this process may not take memory from it (cpuset)
  unknown_device,       ///< no such device, or nothing here can say where it is
  invalid_option,       ///< options that contradict each other or the machine
  malformed_list,       ///< text that is not a kernel list, mask or number
  // Memory.
  out_of_node_memory,   ///< the node has not that much free, less the reserve
  out_of_memory,        ///< the machine has not that much free, less the reserve; or the kernel refused
  cgroup_memory_limit,  ///< a cgroup of this process does not allow that much
  no_huge_pages,        ///< the huge page pool of that size and node has not enough free pages
  memlock_limit,        ///< RLIMIT_MEMLOCK does not allow locking that much
  map_failed,           ///< the kernel refused the mapping for another reason
  populate_failed,      ///< pages could not be made resident
  // Placement.
  policy_denied,        ///< strict was asked, and the memory policy could not be set
  placement_not_reached,   ///< strict was asked, and pages were found on other nodes
  placement_not_verified,  ///< strict was asked, and no witness could say where the pages are
  // Pinning.
  cuda_unavailable,     ///< a CUDA pin was asked for, and no usable CUDA is here
  registration_failed,  ///< CUDA refused to register the range
  lock_failed,          ///< mlock was asked for and refused, not by its limit
  // Workers.
  no_workers,           ///< no worker thread of that node could be started, or no CPU near it may be used
  worker_not_pinned,    ///< a thread could not be pinned to its node's CPUs
  pool_shut_down,       ///< the pool takes no more work
  called_from_worker,   ///< a blocking call on a worker of the same pool, which could wait for itself for ever
  forked_child,         ///< the pool belongs to the process that this one was forked from
  timed_out,            ///< the deadline passed; everything was undone
  cancelled,            ///< cancelled by its owner; everything was undone
  // The machine.
  topology_unavailable,  ///< neither nodes nor CPUs could be read
  machine_not_recorded,  ///< the machine's files could not be written to a folder
};

/// The enumerator's name, "out_of_node_memory": stable, for machines.
[[nodiscard]] std::string_view name(errc code) noexcept;

/// The category of `errc`, named "numapool". Messages are one sentence for people.
[[nodiscard]] const boost::system::error_category& error_category() noexcept;
[[nodiscard]] inline boost::system::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

/// The step of a request, in the order of its life; "none" where there was no request.
enum class operation {
  none,
  resolve,
  admit,
  map,
  bind,
  populate,
  verify,
  pin,
  release,
  start_workers,
  read_topology,
  parse
};
[[nodiscard]] std::string_view name(operation step) noexcept;

/// Everything known about one failure: what `code` alone cannot carry.
struct failure {
  boost::system::error_code code;           ///< in error_category(); unset means no failure
  numapool::operation operation = operation::none;  ///< the step that failed
  node_id node;                             ///< the node that it was for, if any
  std::size_t size_bytes = 0;               ///< the bytes that the step was for
  boost::system::error_code cause;          ///< what the kernel (system category) or CUDA answered, if that was it
  std::string message;                      ///< one sentence that names the input or the limit, and the way out

  explicit operator bool() const noexcept { return code.failed(); }
};

/// What the throwing forms throw. As Asio's own: derives boost::system::system_error, so that one handler serves the
/// blocking calls, futures and awaitables. what() is the failure's message.
class error : public boost::system::system_error {
 public:
  explicit error(failure why) : system_error(why.code, why.message), failure_(std::move(why)) {}
  [[nodiscard]] const failure& why() const noexcept { return failure_; }
  [[nodiscard]] const char* what() const noexcept override { return failure_.message.c_str(); }

 private:
  failure failure_;
};

}  // namespace numapool

template <>
struct boost::system::is_error_code_enum<numapool::errc> : std::true_type {};
