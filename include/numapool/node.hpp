// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernel ids of NUMA nodes and CPUs, and sets of them of any width, with the kernel's list and mask formats.
// Threads: plain values; distinct objects are safe, a shared object is safe to read.

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/error_code.hpp>

namespace numapool {

/// A NUMA node as the kernel numbers it: sparse, never counted, never used as an index.
/// The default value is `unknown`. Unknown is a value of its own: it is not node 0, and no node has its number.
class node_id {
 public:
  static const node_id unknown;  // 2^32-1

  constexpr node_id() noexcept = default;
  constexpr explicit node_id(std::uint32_t value) noexcept : value_(value) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  [[nodiscard]] constexpr bool is_unknown() const noexcept { return value_ == UINT32_MAX; }
  constexpr auto operator<=>(const node_id&) const noexcept = default;

 private:
  std::uint32_t value_ = UINT32_MAX;
};

inline constexpr node_id node_id::unknown{};

/// A CPU as the kernel numbers it: sparse, never counted, never used as an index.
class cpu_id {
 public:
  constexpr cpu_id() noexcept = default;
  constexpr explicit cpu_id(std::uint32_t value) noexcept : value_(value) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  constexpr auto operator<=>(const cpu_id&) const noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

/// "NumaNode(3)", or "UNKNOWN".
[[nodiscard]] std::string to_string(node_id node);
std::ostream& operator<<(std::ostream& stream, node_id node);
std::ostream& operator<<(std::ostream& stream, cpu_id cpu);

/// JSON (nlohmann's hooks, found by argument-dependent lookup): the bare number, `unknown` being 4294967295.
/// Reading anything but a whole number in 0..2^32-1 throws std::out_of_range and leaves `node` unchanged.
template <typename Json>
void to_json(Json& json, const node_id& node) {
  json = node.value();
}
template <typename Json>
void from_json(const Json& json, node_id& node) {
  if (!json.is_number_unsigned() || json.template get<std::uint64_t>() > UINT32_MAX) {
    throw std::out_of_range("a node id is a whole number from 0 to 4294967295");
  }
  node = node_id(json.template get<std::uint32_t>());
}

/// A set of kernel ids, as wide as its highest member needs. `Id` is node_id or cpu_id.
/// Ids above `id_max` are refused where text is read (errc::malformed_list) and are a bug in insert() (checked,
/// aborts): the kernel's own ceilings are 8192 CPUs and 1024 nodes, and a damaged list must not cost gigabytes.
template <typename Id>
class id_set {
 public:
  static constexpr std::uint32_t id_max = (1U << 20U) - 1;  // 1,048,575

  class iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = void;
    using reference = Id;

    iterator() noexcept = default;
    Id operator*() const noexcept { return Id(position_); }
    iterator& operator++() noexcept {
      position_ = set_->next_from(position_ + 1);
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator& other) const noexcept { return position_ == other.position_; }

   private:
    friend class id_set;
    iterator(const id_set* set, std::uint32_t position) noexcept : set_(set), position_(position) {}
    const id_set* set_ = nullptr;
    std::uint32_t position_ = UINT32_MAX;
  };
  using value_type = Id;
  using const_iterator = iterator;

  id_set() noexcept = default;
  id_set(std::initializer_list<Id> ids) {
    for (Id id : ids) {
      insert(id);
    }
  }
  /// The ids first, first+1, ..., last; empty when last < first.
  [[nodiscard]] static id_set range(Id first, Id last);

  /// Reads the kernel's list format, "0-15,32-47": ranges and single ids, in any order, overlapping or not. Empty text,
  /// spaces around numbers and a final newline are legal. Format: cpuset(7), "List format".
  /// Errors: errc::malformed_list for anything else ("3-1", "0-", "a", "0-1-2", an id above id_max); the thrown
  /// numapool::error names the part that is wrong. The second form returns an empty set with `error` set.
  [[nodiscard]] static id_set parse_list(std::string_view text);
  [[nodiscard]] static id_set parse_list(std::string_view text, boost::system::error_code& error);

  /// Reads the kernel's mask format, "00000000,0000ffff": 32-bit hexadecimal words, most significant first (cpuset(7),
  /// "Mask format"). Errors as parse_list.
  [[nodiscard]] static id_set parse_mask(std::string_view text);
  [[nodiscard]] static id_set parse_mask(std::string_view text, boost::system::error_code& error);

  void insert(Id id);
  void erase(Id id) noexcept;
  [[nodiscard]] bool contains(Id id) const noexcept {
    const std::uint32_t word = id.value() / word_bits;
    return word < words_.size() && ((words_[word] >> (id.value() % word_bits)) & 1U) != 0;
  }
  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool is_subset_of(const id_set& other) const noexcept;
  [[nodiscard]] bool intersects(const id_set& other) const noexcept { return !(*this & other).empty(); }

  /// Lowest and highest member. Requires: not empty (checked, aborts).
  [[nodiscard]] Id front() const;
  [[nodiscard]] Id back() const;

  [[nodiscard]] iterator begin() const noexcept { return iterator(this, next_from(0)); }
  [[nodiscard]] iterator end() const noexcept { return iterator(this, UINT32_MAX); }

  id_set& operator&=(const id_set& other) noexcept;
  id_set& operator|=(const id_set& other);
  id_set& operator-=(const id_set& other) noexcept;
  friend id_set operator&(id_set a, const id_set& b) noexcept { return a &= b; }
  friend id_set operator|(id_set a, const id_set& b) { return a |= b; }
  friend id_set operator-(id_set a, const id_set& b) noexcept { return a -= b; }
  friend bool operator==(const id_set&, const id_set&) noexcept = default;

  /// The kernel's list format, shortest form: "0-15,32-47"; "" for the empty set.
  [[nodiscard]] std::string to_list() const;

  /// The members as bits, 64 to a word, least significant first; no trailing zero words. Valid until the set changes.
  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept { return words_; }

 private:
  static constexpr std::uint32_t word_bits = 64;

  // First member at or after `position`, or UINT32_MAX.
  [[nodiscard]] std::uint32_t next_from(std::uint32_t position) const noexcept {
    for (std::size_t word = position / word_bits; word < words_.size(); ++word) {
      const std::uint32_t base = static_cast<std::uint32_t>(word) * word_bits;
      std::uint64_t bits = words_[word];
      if (position > base) {
        bits &= ~std::uint64_t{0} << (position - base);
      }
      if (bits != 0) {
        return base + static_cast<std::uint32_t>(std::countr_zero(bits));
      }
    }
    return UINT32_MAX;
  }
  void trim() noexcept;

  std::vector<std::uint64_t> words_;  // invariant: the last word is not zero
};

extern template class id_set<node_id>;
extern template class id_set<cpu_id>;

using node_set = id_set<node_id>;
using cpu_set = id_set<cpu_id>;

static_assert(sizeof(node_id) == 4 && sizeof(cpu_id) == 4);

}  // namespace numapool

template <>
struct std::hash<numapool::node_id> {
  std::size_t operator()(numapool::node_id node) const noexcept {
    return std::hash<std::uint32_t>{}(node.value());
  }
};
template <>
struct std::hash<numapool::cpu_id> {
  std::size_t operator()(numapool::cpu_id cpu) const noexcept {
    return std::hash<std::uint32_t>{}(cpu.value());
  }
};
