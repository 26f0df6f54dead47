// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <string>

#include <boost/system/errc.hpp>

#include <numapool/error.hpp>

namespace numapool {
namespace {

using posix = boost::system::errc::errc_t;
namespace generic = boost::system::errc;

struct description {
  errc code;
  std::string_view name;
  std::string_view message;
  std::optional<posix>
      generic_code;  // what a handler that knows nothing of numapool may compare with
};

// In the order of the enumeration, without gaps: looked up by index.
constexpr std::array descriptions{
    description{errc::zero_size, "zero_size", "zero bytes were asked for",
                generic::invalid_argument},
    description{errc::size_overflow, "size_overflow",
                "the size, rounded up to pages, does not fit the address space",
                generic::value_too_large},
    description{errc::unknown_node, "unknown_node",
                "there is no such NUMA node, or the device's node is not known",
                generic::invalid_argument},
    description{errc::node_not_allowed, "node_not_allowed",
                "this process may not take memory from the NUMA node",
                generic::operation_not_permitted},
    description{errc::unknown_device, "unknown_device",
                "there is no such device, or nothing here can say where it is",
                generic::no_such_device},
    description{errc::invalid_option, "invalid_option",
                "the options contradict each other or the machine", generic::invalid_argument},
    description{errc::malformed_list, "malformed_list",
                "the text is not a kernel list, mask or number", generic::invalid_argument},
    description{errc::out_of_node_memory, "out_of_node_memory",
                "the NUMA node has not enough free memory above the reserve",
                generic::not_enough_memory},
    description{errc::out_of_memory, "out_of_memory",
                "the machine has not enough free memory above the reserve",
                generic::not_enough_memory},
    description{errc::cgroup_memory_limit, "cgroup_memory_limit",
                "a cgroup of this process does not allow that much memory",
                generic::not_enough_memory},
    description{errc::no_huge_pages, "no_huge_pages",
                "the huge page pool has not enough free pages of that size",
                generic::not_enough_memory},
    description{errc::memlock_limit, "memlock_limit",
                "RLIMIT_MEMLOCK does not allow locking that much memory",
                generic::not_enough_memory},
    description{errc::map_failed, "map_failed", "the kernel refused the mapping", std::nullopt},
    description{errc::populate_failed, "populate_failed", "pages could not be made resident",
                std::nullopt},
    description{errc::policy_denied, "policy_denied", "the memory policy could not be set",
                generic::operation_not_permitted},
    description{errc::placement_not_reached, "placement_not_reached",
                "pages were found on other NUMA nodes than the one asked for", std::nullopt},
    description{errc::placement_not_verified, "placement_not_verified",
                "nothing here could say on which NUMA node the pages are", std::nullopt},
    description{errc::cuda_unavailable, "cuda_unavailable",
                "a CUDA pin was asked for, and no usable CUDA is here", generic::not_supported},
    description{errc::registration_failed, "registration_failed",
                "CUDA refused to register the memory", std::nullopt},
    description{errc::lock_failed, "lock_failed", "the kernel refused to lock the memory",
                std::nullopt},
    description{errc::no_workers, "no_workers", "the NUMA node has no worker thread",
                generic::resource_unavailable_try_again},
    description{errc::worker_not_pinned, "worker_not_pinned",
                "a thread could not be pinned to the CPUs of its NUMA node", std::nullopt},
    description{errc::pool_shut_down, "pool_shut_down", "the worker pool takes no more work",
                std::nullopt},
    description{errc::called_from_worker, "called_from_worker",
                "a blocking call on a worker could wait for itself for ever",
                generic::resource_deadlock_would_occur},
    description{errc::forked_child, "forked_child",
                "the worker pool belongs to the process that this one was forked from",
                std::nullopt},
    description{errc::timed_out, "timed_out", "the deadline passed, and everything was undone",
                generic::timed_out},
    description{errc::cancelled, "cancelled",
                "the request was cancelled, and everything was undone",
                generic::operation_canceled},
    description{errc::topology_unavailable, "topology_unavailable",
                "neither NUMA nodes nor CPUs could be read", std::nullopt},
    description{errc::machine_not_recorded, "machine_not_recorded",
                "the machine's files could not be written to the folder", std::nullopt},
};

constexpr bool are_in_order() noexcept {
  for (std::size_t index = 0; index < descriptions.size(); ++index) {
    if (descriptions[index].code != static_cast<errc>(index + 1)) {
      return false;
    }
  }
  return descriptions.back().code == errc::machine_not_recorded;
}
static_assert(are_in_order(), "one description for each errc, in its order");

constexpr std::array<std::string_view, 12> operation_names{
    "none",   "resolve", "admit",   "map",           "bind",          "populate",
    "verify", "pin",     "release", "start_workers", "read_topology", "parse"};
static_assert(operation_names.size() == static_cast<std::size_t>(operation::parse) + 1);

const description* find_description(int code) noexcept {
  const bool is_known = code >= 1 && static_cast<std::size_t>(code) <= descriptions.size();
  return is_known ? &descriptions[static_cast<std::size_t>(code) - 1] : nullptr;
}

// Boost's categories are never deleted through a base, and so have no virtual destructor.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class category final : public boost::system::error_category {
 public:
  // The number makes the category equal to itself where two copies of the library are loaded.
  constexpr category() noexcept : error_category(0x6e756d61706f6f6cU) {}

  const char* name() const noexcept override { return "numapool"; }

  std::string message(int code) const override {
    const description* const found = find_description(code);
    return found != nullptr ? std::string(found->message)
                            : "unknown numapool error " + std::to_string(code);
  }

  boost::system::error_condition default_error_condition(int code) const noexcept override {
    const description* const found = find_description(code);
    if (found != nullptr && found->generic_code) {
      return boost::system::errc::make_error_condition(*found->generic_code);
    }
    return {code, *this};
  }
};
#pragma GCC diagnostic pop

}  // namespace

std::string_view name(errc code) noexcept {
  const description* const found = find_description(static_cast<int>(code));
  return found != nullptr ? found->name : "unknown";
}

std::string_view name(operation step) noexcept {
  const auto index = static_cast<std::size_t>(step);
  return index < operation_names.size() ? operation_names[index] : "unknown";
}

const boost::system::error_category& error_category() noexcept {
  static constexpr category instance;  // constant: usable before and after main
  return instance;
}

}  // namespace numapool
