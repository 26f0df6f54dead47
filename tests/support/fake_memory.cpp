// SPDX-License-Identifier: Apache-2.0
#include "support/fake_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "base/failures.hpp"

namespace numapool::test {

using base::system_error;
using platform::advice;
using platform::error_code;

void fake_memory::set_abilities(const abilities& can) {
  const std::lock_guard lock(mutex_);
  can_ = can;
}

void fake_memory::set_free(node_id node, std::uint64_t free_bytes) {
  const std::lock_guard lock(mutex_);
  nodes_.at(node).free_bytes = free_bytes;
}

void fake_memory::misplace_on(std::optional<node_id> node) {
  const std::lock_guard lock(mutex_);
  misplace_on_ = node;
}

void fake_memory::migrate(const std::byte* data, std::size_t size_bytes, node_id to) {
  const std::lock_guard lock(mutex_);
  books* const of = find(data, size_bytes, "migrate");
  if (of == nullptr) {
    return;
  }
  const std::size_t unit = real_.page_size_bytes();
  const auto first = static_cast<std::size_t>(data - of->mapped.data) / unit;
  for (std::size_t i = first; i < first + size_bytes / unit; ++i) {
    if (of->pages[i].node) {
      nodes_.at(*of->pages[i].node).free_bytes += unit;
      of->pages[i].node = to;
      nodes_.at(to).free_bytes -= unit;
    }
  }
}

void fake_memory::set_populate_hook(std::function<void(const std::byte*)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

std::uint64_t fake_memory::free_bytes(node_id node) const {
  const std::lock_guard lock(mutex_);
  return nodes_.at(node).free_bytes;
}

std::uint64_t fake_memory::huge_free(std::optional<node_id> node) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [id, entry] : nodes_) {
    sum += !node || *node == id ? entry.huge_free : 0;
  }
  return sum;
}

std::size_t fake_memory::mappings() const {
  const std::lock_guard lock(mutex_);
  return mappings_.size();
}

std::size_t fake_memory::mappings_made() const {
  const std::lock_guard lock(mutex_);
  return mappings_made_;
}

std::uint64_t fake_memory::locked_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& entry : mappings_) {
    sum += entry.second.locked ? entry.second.mapped.size_bytes : 0;
  }
  return sum;
}

std::size_t fake_memory::resident_pages(const std::byte* data, std::size_t size_bytes) const {
  std::size_t sum = 0;
  for (const auto& entry : nodes_) {
    sum += pages_on(data, size_bytes, entry.first);
  }
  return sum;
}

std::size_t fake_memory::pages_on(const std::byte* data, std::size_t size_bytes,
                                  node_id node) const {
  const std::lock_guard lock(mutex_);
  const books* const of = find(data, size_bytes, "pages_on");
  if (of == nullptr) {
    return 0;
  }
  const std::size_t unit = real_.page_size_bytes();
  const auto first =
      of->pages.begin() + (data - of->mapped.data) / static_cast<std::ptrdiff_t>(unit);
  return static_cast<std::size_t>(
      std::count_if(first, first + static_cast<std::ptrdiff_t>(size_bytes / unit),
                    [node](const page& one) { return one.node == node; }));
}

bool fake_memory::is_kept_from_children(const std::byte* data) const {
  const std::lock_guard lock(mutex_);
  const books* const of = find(data, 1, "is_kept_from_children");
  return of != nullptr && of->dont_fork;
}

std::size_t fake_memory::queries() const {
  const std::lock_guard lock(mutex_);
  return queries_;
}

void fake_memory::forget() {
  const std::lock_guard lock(mutex_);
  for (auto& entry : mappings_) {
    give_back(entry.second, 0, entry.second.pages.size());
    EXPECT_FALSE(real_.unmap(entry.second.mapped));
  }
  mappings_.clear();
}

// proc(5): a line a mapping, counts in pages of the size at its end. Neighbours that this process
// really has are left out.
std::string fake_memory::numa_maps() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream text;
  text << "00400000 default file=/bin/app mapped=3 N0=3 kernelpagesize_kB=4\n";
  for (const auto& [data, of] : mappings_) {
    const std::size_t unit = of.hugetlb_bytes != 0 ? of.hugetlb_bytes : real_.page_size_bytes();
    const std::size_t step = unit / real_.page_size_bytes();
    std::map<node_id, std::size_t> found;
    for (std::size_t i = 0; i < of.pages.size(); i += step) {
      if (of.pages[i].node) {
        ++found[*of.pages[i].node];
      }
    }
    text << std::hex << reinterpret_cast<std::uintptr_t>(data) << std::dec
         << " default anon=" << of.pages.size();
    for (const auto& [node, pages] : found) {
      text << " N" << node.value() << '=' << pages;
    }
    text << " kernelpagesize_kB=" << unit / 1024 << '\n';
  }
  return text.str();
}

fake_memory::books* fake_memory::find(const std::byte* data, std::size_t size_bytes,
                                      const char* what) const {
  auto after = mappings_.upper_bound(data);
  if (after != mappings_.begin()) {
    books& of = std::prev(after)->second;
    if (data + size_bytes <= of.mapped.data + of.mapped.size_bytes) {
      return &of;
    }
  }
  ADD_FAILURE() << what << " outside of any mapping: " << static_cast<const void*>(data) << " + "
                << size_bytes;
  return nullptr;
}

std::size_t fake_memory::page_size_bytes() const noexcept {
  return real_.page_size_bytes();
}

error_code fake_memory::map(const platform::map_options& options, platform::mapping& made) {
  const std::size_t unit = real_.page_size_bytes();
  EXPECT_TRUE(options.size_bytes > 0 && options.size_bytes % unit == 0) << options.size_bytes;
  EXPECT_GE(options.alignment_bytes, unit);
  platform::map_options real = options;
  if (options.huge_page_size_bytes != 0) {
    EXPECT_EQ(options.size_bytes % options.huge_page_size_bytes, 0U);
    real.huge_page_size_bytes = 0;
    real.alignment_bytes = std::max(real.alignment_bytes, options.huge_page_size_bytes);
  }
  platform::mapping mapped;
  if (const auto error = real_.map(real, mapped)) {
    return error;
  }
  const std::lock_guard lock(mutex_);
  books& of = mappings_[mapped.data];
  of.mapped = mapped;
  of.hugetlb_bytes = options.huge_page_size_bytes;
  of.misplaced_on = misplace_on_;
  of.pages.resize(mapped.size_bytes / unit);
  of.wants_huge.resize(of.pages.size());
  ++mappings_made_;
  made = mapped;
  return {};
}

error_code fake_memory::unmap(const platform::mapping& made) {
  EXPECT_FALSE(is_registered_ && is_registered_(made.data, made.size_bytes))
      << "memory was unmapped that a driver still knows";
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(made.data);
  if (found == mappings_.end() || found->second.mapped.size_bytes != made.size_bytes ||
      found->second.mapped.reserved_bytes != made.reserved_bytes) {
    ADD_FAILURE() << "unmapped what was not mapped so";
    return system_error(EINVAL);
  }
  give_back(found->second, 0, found->second.pages.size());
  mappings_.erase(found);
  return real_.unmap(made);
}

void fake_memory::give_back(books& of, std::size_t first, std::size_t count) {
  const std::size_t unit = real_.page_size_bytes();
  const std::size_t step = of.hugetlb_bytes / unit;
  for (std::size_t i = first; i < first + count; ++i) {
    if (!of.pages[i].node) {
      continue;
    }
    node_books& home = nodes_.at(*of.pages[i].node);
    if (step == 0) {
      home.free_bytes += unit;
    } else if (i % step == 0) {
      ++home.huge_free;
    }
    of.pages[i] = {};
  }
}

error_code fake_memory::advise(std::byte* data, std::size_t size_bytes, advice what) {
  if (what == advice::populate_write) {
    call_hook(data);
  }
  const std::lock_guard lock(mutex_);
  books* const of = find(data, size_bytes, "advise");
  if (of == nullptr) {
    return system_error(ENOMEM);
  }
  const std::size_t unit = real_.page_size_bytes();
  EXPECT_EQ(static_cast<std::size_t>(data - of->mapped.data) % unit, 0U);
  EXPECT_EQ(size_bytes % unit, 0U);
  switch (what) {
    case advice::huge_pages:
    case advice::no_huge_pages: {
      const auto from =
          of->wants_huge.begin() + (data - of->mapped.data) / static_cast<std::ptrdiff_t>(unit);
      std::fill_n(from, size_bytes / unit, what == advice::huge_pages);
      return {};
    }
    case advice::dont_fork:
      of->dont_fork = true;
      return {};
    case advice::dont_need:
      EXPECT_FALSE(is_registered_ && is_registered_(data, size_bytes))
          << "pages were given back that a driver still knows";
      give_back(*of, static_cast<std::size_t>(data - of->mapped.data) / unit, size_bytes / unit);
      return {};
    case advice::populate_write:
      break;
  }
  if (!can_.populate_write) {
    return system_error(EINVAL);
  }
  const auto first = static_cast<std::size_t>(data - of->mapped.data) / unit;
  for (std::size_t i = first; i < first + size_bytes / unit; ++i) {
    if (const auto error = fault(*of, i, true)) {
      return error;
    }
  }
  return {};
}

error_code fake_memory::bind(std::byte* data, std::size_t size_bytes,
                             platform::memory_policy policy, const node_set& nodes) {
  const std::lock_guard lock(mutex_);
  books* const of = find(data, size_bytes, "bind");
  if (of == nullptr || nodes.empty()) {
    return system_error(EINVAL);
  }
  EXPECT_EQ(size_bytes, of->mapped.size_bytes);
  for (const page& one : of->pages) {
    EXPECT_FALSE(one.node.has_value()) << "a policy after the first touch moves nothing";
  }
  for (const node_id node : nodes) {
    if (!nodes_.contains(node)) {
      return system_error(EINVAL);  // mbind(2): no node with memory in the mask
    }
  }
  of->policy = policy;
  of->policy_nodes = nodes;
  return {};
}

error_code fake_memory::touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) {
  call_hook(data);
  const std::lock_guard lock(mutex_);
  books* const of = find(data, size_bytes, "touch");
  if (of == nullptr) {
    return system_error(EFAULT);
  }
  EXPECT_GE(step_bytes, real_.page_size_bytes());
  for (std::size_t offset = 0; offset < size_bytes; offset += step_bytes) {
    const auto index =
        static_cast<std::size_t>(data + offset - of->mapped.data) / real_.page_size_bytes();
    if (const auto error = fault(*of, index, false)) {
      return error;
    }
  }
  return {};
}

void fake_memory::call_hook(const std::byte* data) const {
  std::function<void(const std::byte*)> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = hook_;
  }
  if (hook) {
    hook(data);
  }
}

// The nodes that may give a page, best first.
std::vector<node_id> fake_memory::candidates(const books& of) const {
  if (of.misplaced_on) {
    return {*of.misplaced_on};
  }
  if (of.policy == platform::memory_policy::bind) {
    return {of.policy_nodes.begin(), of.policy_nodes.end()};
  }
  const node_id here = toucher_ ? toucher_() : node_id::unknown;
  const node_id first = of.policy ? of.policy_nodes.front() : here;
  const auto found = nodes_.find(first);
  std::vector<node_id> order =
      found == nodes_.end() ? std::vector<node_id>() : found->second.by_distance;
  for (const auto& entry : nodes_) {
    if (std::find(order.begin(), order.end(), entry.first) == order.end()) {
      order.push_back(entry.first);
    }
  }
  return order;
}

bool fake_memory::take(const books& of, std::uint64_t size_bytes, node_id& from) {
  for (const node_id node : candidates(of)) {
    node_books& home = nodes_.at(node);
    if (home.free_bytes >= size_bytes) {
      home.free_bytes -= size_bytes;
      from = node;
      return true;
    }
  }
  return false;
}

error_code fake_memory::fault(books& of, std::size_t index, bool by_call) {
  if (of.pages[index].node) {
    return {};
  }
  if (of.hugetlb_bytes != 0) {
    return fault_hugetlb(of, index, by_call);
  }
  if (fault_huge(of, index)) {
    return {};
  }
  node_id from;
  if (!take(of, real_.page_size_bytes(), from)) {
    ADD_FAILURE() << "the kernel would have killed a process here: no node that the policy allows "
                     "has a page free";
    return system_error(ENOMEM);
  }
  of.pages[index] = {from, false};
  return {};
}

bool fake_memory::fault_huge(books& of, std::size_t index) {
  const std::size_t step = huge_page_bytes / real_.page_size_bytes();
  const std::size_t first = index / step * step;
  const bool is_whole = reinterpret_cast<std::uintptr_t>(of.mapped.data) % huge_page_bytes == 0 &&
                        first + step <= of.pages.size();
  const bool is_given =
      can_.thp == thp_rule::always || (can_.thp == thp_rule::alternate && first / step % 2 == 0);
  if (!of.wants_huge[index] || !is_whole || !is_given) {
    return false;
  }
  const auto begin = of.pages.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(step);
  node_id from;
  if (std::any_of(begin, end, [](const page& one) { return one.node.has_value(); }) ||
      !take(of, huge_page_bytes, from)) {
    return false;
  }
  std::fill(begin, end, page{from, true});
  return true;
}

error_code fake_memory::fault_hugetlb(books& of, std::size_t index, bool by_call) {
  const std::size_t step = of.hugetlb_bytes / real_.page_size_bytes();
  const std::size_t first = index / step * step;
  for (const node_id node : candidates(of)) {
    node_books& home = nodes_.at(node);
    if (home.huge_free > 0) {
      --home.huge_free;
      std::fill_n(of.pages.begin() + static_cast<std::ptrdiff_t>(first), step, page{node, true});
      return {};
    }
  }
  EXPECT_TRUE(by_call) << "SIGBUS: a page of an empty hugetlb pool was touched";
  return system_error(EFAULT);
}

error_code fake_memory::lock_on_fault(std::byte* data, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  books* const of = find(data, size_bytes, "lock_on_fault");
  if (of == nullptr) {
    return system_error(ENOMEM);
  }
  std::uint64_t locked = size_bytes;
  for (const auto& entry : mappings_) {
    locked += entry.second.locked ? entry.second.mapped.size_bytes : 0;
  }
  if (locked > can_.lock_limit_bytes) {
    return system_error(can_.lock_limit_bytes == 0 ? EPERM : ENOMEM);
  }
  of->locked = true;
  return {};
}

std::uint64_t fake_memory::lock_limit_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return can_.lock_limit_bytes;
}

error_code fake_memory::query_nodes(std::span<void* const> addresses, std::span<int> nodes) const {
  EXPECT_EQ(addresses.size(), nodes.size());
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto* const address = static_cast<const std::byte*>(addresses[i]);
    const books* const of = find(address, 1, "query_nodes");
    if (of == nullptr) {
      return system_error(EFAULT);
    }
    const page& asked =
        of->pages[static_cast<std::size_t>(address - of->mapped.data) / real_.page_size_bytes()];
    nodes[i] = asked.node ? static_cast<int>(asked.node->value()) : -ENOENT;
    ++queries_;
  }
  return {};
}

error_code fake_memory::query_node(const std::byte* address, int& node) const {
  const std::lock_guard lock(mutex_);
  const books* const of = find(address, 1, "query_node");
  if (of == nullptr) {
    return system_error(EFAULT);
  }
  ++queries_;
  const page& asked =
      of->pages[static_cast<std::size_t>(address - of->mapped.data) / real_.page_size_bytes()];
  EXPECT_TRUE(asked.node.has_value()) << "get_mempolicy would have made a page resident here";
  node = asked.node ? static_cast<int>(asked.node->value()) : -1;
  return {};
}

std::size_t fake_memory::count_huge(const books& of, const std::byte* data,
                                    std::size_t size_bytes) const {
  const std::size_t unit = real_.page_size_bytes();
  const auto first = of.pages.begin() + (data - of.mapped.data) / static_cast<std::ptrdiff_t>(unit);
  const auto huge = std::count_if(first, first + static_cast<std::ptrdiff_t>(size_bytes / unit),
                                  [](const page& one) { return one.huge; });
  return static_cast<std::size_t>(huge) * unit;
}

error_code fake_memory::scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                        std::size_t& huge_bytes) const {
  const std::lock_guard lock(mutex_);
  if (!can_.pagemap_scan) {
    return system_error(ENOTTY);
  }
  const books* const of = find(data, size_bytes, "scan_huge_bytes");
  if (of != nullptr) {
    huge_bytes = count_huge(*of, data, size_bytes);
  }
  return {};
}

error_code fake_memory::read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                        std::size_t& huge_bytes) const {
  const std::lock_guard lock(mutex_);
  const books* const of = find(data, size_bytes, "read_huge_bytes");
  if (of != nullptr) {
    huge_bytes = count_huge(*of, data, size_bytes);
  }
  return {};
}

}  // namespace numapool::test
