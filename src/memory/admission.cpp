// SPDX-License-Identifier: Apache-2.0
#include "memory/admission.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "memory/release_queue.hpp"

namespace numapool::memory {
namespace {

// The process's admitted bytes by node. One lock, taken once a request and once a piece of 32 MiB.
class ledger {
 public:
  void add(node_id node, std::size_t size_bytes) {
    const base::lock_guard lock(mutex_);
    by_node_[node] += size_bytes;
    total_ += size_bytes;
  }
  void subtract(node_id node, std::size_t size_bytes) noexcept {
    const base::lock_guard lock(mutex_);
    const auto entry = by_node_.find(node);
    NUMAPOOL_CHECK(entry != by_node_.end() && entry->second >= size_bytes && total_ >= size_bytes);
    entry->second -= size_bytes;
    total_ -= size_bytes;
  }
  std::uint64_t of(node_id node) {
    const base::lock_guard lock(mutex_);
    const auto entry = by_node_.find(node);
    return entry == by_node_.end() ? 0 : entry->second;
  }
  std::uint64_t total() {
    const base::lock_guard lock(mutex_);
    return total_;
  }

 private:
  base::mutex mutex_;
  std::map<node_id, std::uint64_t> by_node_ NUMAPOOL_GUARDED_BY(mutex_);
  std::uint64_t total_ NUMAPOOL_GUARDED_BY(mutex_) = 0;
};

ledger& admitted() {
  static ledger& process_wide = *new ledger;  // tickets may end in static destructors
  return process_wide;
}

std::uint64_t less(std::uint64_t from, std::uint64_t taken) noexcept {
  return from > taken ? from - taken : 0;
}

// "MemFree:  123 kB", with or without the "Node 3 " that node files put before it.
std::optional<std::uint64_t> meminfo_bytes(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool whole_word =
        (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n') && text[at + key.size()] == ':';
    if (!whole_word) {
      continue;
    }
    const std::size_t digits = text.find_first_not_of(' ', at + key.size() + 1);
    std::uint64_t kib = 0;
    if (digits != std::string_view::npos &&
        std::from_chars(text.data() + digits, text.data() + text.size(), kib).ec == std::errc()) {
      return kib * 1024;
    }
  }
  return std::nullopt;
}

struct room {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // free, or page cache that the kernel gives up for it
};

std::optional<room> room_on(const platform::files& files, const topology& nodes, node_id node) {
  const std::string path =
      nodes.source() == topology_source::synthetic
          ? std::string("/proc/meminfo")
          : "/sys/devices/system/node/node" + std::to_string(node.value()) + "/meminfo";
  std::string text;
  if (files.read_text(path, text)) {
    return std::nullopt;
  }
  const auto total = meminfo_bytes(text, "MemTotal");
  const auto free = meminfo_bytes(text, "MemFree");
  if (!total || !free) {
    return std::nullopt;
  }
  std::uint64_t available = *free;
  for (const char* reclaimable : {"Active(file)", "Inactive(file)", "SReclaimable"}) {
    available += meminfo_bytes(text, reclaimable).value_or(0);
  }
  return room{*total, std::min(available, *total)};
}

std::string in_mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

failure refuse(errc code, const admission_request& wanted, const std::string& where,
               std::uint64_t usable, std::uint64_t reserve) {
  return {code,
          operation::admit,
          wanted.node,
          wanted.size_bytes,
          {},
          "asked for " + in_mib(wanted.size_bytes) + ", but " + where + " has " + in_mib(usable) +
              " to give (a reserve of " + in_mib(reserve) +
              " is kept): ask for less, or free some first"};
}

}  // namespace

failure admission::check_node(const admission_request& wanted, std::uint64_t& room_bytes) const {
  const auto there = room_on(files_, nodes_, wanted.node);
  if (!there) {
    return {};  // unknown is not full: the kernel has the last word, and placement is verified
  }
  const std::uint64_t reserve =
      wanted.reserve_bytes.value_or(default_reserve_bytes(there->total_bytes));
  const std::uint64_t usable = less(there->available_bytes, reserve + admitted().of(wanted.node));
  room_bytes = std::min(room_bytes, usable);
  if (wanted.size_bytes > usable) {
    return refuse(errc::out_of_node_memory, wanted, "node " + std::to_string(wanted.node.value()),
                  usable, reserve);
  }
  return {};
}

failure admission::check_machine(const admission_request& wanted, std::uint64_t& room_bytes) const {
  std::uint64_t usable = 0;
  std::uint64_t reserve = 0;
  for (const node_info& node : nodes_.nodes()) {
    const bool counts = node.allowed_memory && (!node.gpu_pci_address || node.id == wanted.node);
    const auto there = counts ? room_on(files_, nodes_, node.id) : std::nullopt;
    if (there) {
      const std::uint64_t kept =
          wanted.reserve_bytes.value_or(default_reserve_bytes(there->total_bytes));
      usable += less(there->available_bytes, kept + admitted().of(node.id));
      reserve += kept;
    }
  }
  if (reserve == 0 && usable == 0) {
    return {};  // no node could be read
  }
  usable = less(usable, admitted().of(node_id::unknown));
  room_bytes = std::min(room_bytes, usable);
  return wanted.size_bytes > usable
             ? refuse(errc::out_of_memory, wanted, "the machine", usable, reserve)
             : failure();
}

failure admission::check_cgroups(const admission_request& wanted, std::uint64_t& room_bytes) {
  for (const cgroup::memory_limit& limit : cgroups_.read()) {
    const std::uint64_t reserve =
        wanted.reserve_bytes.value_or(default_reserve_bytes(limit.limit_bytes));
    const std::uint64_t used = less(limit.usage_bytes, limit.reclaimable_bytes);
    const std::uint64_t usable = less(limit.limit_bytes, used + reserve + admitted().total());
    room_bytes = std::min(room_bytes, usable);
    if (wanted.size_bytes > usable) {
      return refuse(errc::cgroup_memory_limit, wanted, "the cgroup " + limit.path, usable, reserve);
    }
  }
  return {};
}

admission_ticket::admission_ticket(node_id node, std::size_t size_bytes)
    : node_(node), size_bytes_(size_bytes) {
  admitted().add(node, size_bytes);
}

admission_ticket& admission_ticket::operator=(admission_ticket&& other) noexcept {
  if (this != &other) {
    give_back(size_bytes_);
    node_ = other.node_;
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

admission_ticket::~admission_ticket() {
  give_back(size_bytes_);
}

void admission_ticket::give_back(std::size_t size_bytes) noexcept {
  NUMAPOOL_CHECK(size_bytes <= size_bytes_);
  if (size_bytes > 0) {
    admitted().subtract(node_, size_bytes);
    size_bytes_ -= size_bytes;
  }
}

std::size_t default_reserve_bytes(std::uint64_t total_bytes) noexcept {
  constexpr std::uint64_t at_least = 512ULL
                                     << 20U;  // 512 MiB: what a small service needs to go on living
  return std::min(std::max(total_bytes / 50, at_least), total_bytes / 8);
}

admission::admission(const platform::files& files, const topology& nodes) noexcept
    : files_(files), nodes_(nodes), cgroups_(files) {}

failure admission::check(const admission_request& wanted, std::uint64_t& room_bytes) {
  room_bytes = UINT64_MAX;
  failure why = wanted.strict ? check_node(wanted, room_bytes) : check_machine(wanted, room_bytes);
  return why ? why : check_cgroups(wanted, room_bytes);
}

// Whoever else takes memory cannot take in 10 ms what is left beside an eighth of a GiB and more:
// no machine zeroes 100 GB/s, and the reserve is not counted in it.
bool admission::take_of_last_reading(const admission_request& wanted) {
  constexpr std::chrono::milliseconds good_for{10};
  constexpr std::uint64_t room_min = 1ULL << 30U;
  const bool is_same = last_.node == wanted.node && last_.strict == wanted.strict &&
                       last_.reserve_bytes == wanted.reserve_bytes;
  if (!is_same || last_.room_bytes < room_min || last_.room_bytes == UINT64_MAX ||
      clock::now() - last_.when > good_for ||
      wanted.size_bytes >
          last_.room_bytes / 8 - std::min(last_.taken_bytes, last_.room_bytes / 8)) {
    return false;
  }
  last_.taken_bytes += wanted.size_bytes;
  return true;
}

failure admission::admit(const admission_request& wanted, admission_ticket& ticket) {
  if (!wanted.from_page_cache) {
    return {};
  }
  // One admission at a time: two that look before either takes would both be let in.
  static base::mutex& admitting = *new base::mutex;
  const base::lock_guard lock(admitting);
  if (take_of_last_reading(wanted)) {
    ticket = admission_ticket(wanted.node, wanted.size_bytes);
    return {};
  }
  std::uint64_t room_bytes = 0;
  failure why = check(wanted, room_bytes);
  if (why && release_queue::of_process().wait()) {
    why = check(wanted, room_bytes);  // what was on its way back may be what was missing
  }
  if (!why) {
    last_ = {wanted.node,  wanted.strict, wanted.reserve_bytes,
             clock::now(), room_bytes,    wanted.size_bytes};
    ticket = admission_ticket(wanted.node, wanted.size_bytes);
  }
  return why;
}

std::optional<std::uint64_t> free_huge_pages(const platform::files& files, node_id node,
                                             std::size_t page_size_bytes) {
  const std::string pool = "/hugepages/hugepages-" + std::to_string(page_size_bytes / 1024) + "kB/";
  const auto read = [&files](const std::string& path) -> std::optional<std::uint64_t> {
    std::string text;
    std::uint64_t pages = 0;
    if (files.read_text(path, text) ||
        std::from_chars(text.data(), text.data() + text.size(), pages).ec != std::errc()) {
      return std::nullopt;
    }
    return pages;
  };
  const auto free_anywhere = read("/sys/kernel/mm" + pool + "free_hugepages");
  if (!free_anywhere) {
    return std::nullopt;
  }
  const std::uint64_t reserved = read("/sys/kernel/mm" + pool + "resv_hugepages").value_or(0);
  const std::uint64_t unreserved = less(*free_anywhere, reserved);
  if (node.is_unknown()) {
    return unreserved;
  }
  const auto free_on_node = read("/sys/devices/system/node/node" + std::to_string(node.value()) +
                                 pool + "free_hugepages");
  return std::min(unreserved, free_on_node.value_or(unreserved));
}

}  // namespace numapool::memory
