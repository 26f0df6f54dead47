// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include <numapool/error.hpp>
#include <numapool/node.hpp>

#include "base/check.hpp"
#include "base/failures.hpp"
#include "base/id_list.hpp"

namespace numapool {
namespace {

using read_ranges = failure (*)(std::string_view, std::uint32_t, std::vector<base::id_range>&);

template <typename Id>
failure read_set(read_ranges read, std::string_view text, id_set<Id>& set) {
  std::vector<base::id_range> ranges;
  if (failure wrong = read(text, id_set<Id>::id_max, ranges)) {
    return wrong;
  }
  for (const base::id_range& range : ranges) {
    set |= id_set<Id>::range(Id(range.first), Id(range.last));
  }
  return {};
}

template <typename Id>
id_set<Id> read_or_throw(read_ranges read, std::string_view text) {
  id_set<Id> set;
  if (failure wrong = read_set(read, text, set)) {
    base::raise(std::move(wrong));
  }
  return set;
}

template <typename Id>
id_set<Id> read_or_fail(read_ranges read, std::string_view text, boost::system::error_code& error) {
  id_set<Id> set;
  const failure wrong = read_set(read, text, set);
  error = wrong.code;
  return wrong ? id_set<Id>{} : set;
}

}  // namespace

std::string to_string(node_id node) {
  return node.is_unknown() ? "UNKNOWN" : "NumaNode(" + std::to_string(node.value()) + ")";
}

std::ostream& operator<<(std::ostream& stream, node_id node) {
  return stream << to_string(node);
}

std::ostream& operator<<(std::ostream& stream, cpu_id cpu) {
  return stream << std::to_string(cpu.value());  // not the stream's base or width: an id is a name
}

template <typename Id>
id_set<Id> id_set<Id>::range(Id first, Id last) {
  id_set set;
  if (last < first) {
    return set;
  }
  NUMAPOOL_CHECK(last.value() <= id_max);
  const std::uint32_t low = first.value() / word_bits;
  const std::uint32_t high = last.value() / word_bits;
  set.words_.assign(high + 1, 0);
  for (std::uint32_t word = low; word <= high; ++word) {
    set.words_[word] = ~std::uint64_t{0};
  }
  set.words_[low] &= ~std::uint64_t{0} << (first.value() % word_bits);
  set.words_[high] &= ~std::uint64_t{0} >> (word_bits - 1 - last.value() % word_bits);
  return set;
}

template <typename Id>
id_set<Id> id_set<Id>::parse_list(std::string_view text) {
  return read_or_throw<Id>(base::read_id_list, text);
}

template <typename Id>
id_set<Id> id_set<Id>::parse_list(std::string_view text, boost::system::error_code& error) {
  return read_or_fail<Id>(base::read_id_list, text, error);
}

template <typename Id>
id_set<Id> id_set<Id>::parse_mask(std::string_view text) {
  return read_or_throw<Id>(base::read_id_mask, text);
}

template <typename Id>
id_set<Id> id_set<Id>::parse_mask(std::string_view text, boost::system::error_code& error) {
  return read_or_fail<Id>(base::read_id_mask, text, error);
}

template <typename Id>
void id_set<Id>::insert(Id id) {
  NUMAPOOL_CHECK(id.value() <= id_max);
  const std::size_t word = id.value() / word_bits;
  if (word >= words_.size()) {
    words_.resize(word + 1, 0);
  }
  words_[word] |= std::uint64_t{1} << (id.value() % word_bits);
}

template <typename Id>
void id_set<Id>::erase(Id id) noexcept {
  if (contains(id)) {
    words_[id.value() / word_bits] &= ~(std::uint64_t{1} << (id.value() % word_bits));
    trim();
  }
}

template <typename Id>
std::size_t id_set<Id>::size() const noexcept {
  std::size_t members = 0;
  for (std::uint64_t word : words_) {
    members += static_cast<std::size_t>(std::popcount(word));
  }
  return members;
}

template <typename Id>
bool id_set<Id>::is_subset_of(const id_set& other) const noexcept {
  if (words_.size() > other.words_.size()) {
    return false;  // the last word is never zero, so there is a member up there
  }
  for (std::size_t word = 0; word < words_.size(); ++word) {
    if ((words_[word] & ~other.words_[word]) != 0) {
      return false;
    }
  }
  return true;
}

template <typename Id>
Id id_set<Id>::front() const {
  NUMAPOOL_CHECK(!empty());
  return Id(next_from(0));
}

template <typename Id>
Id id_set<Id>::back() const {
  NUMAPOOL_CHECK(!empty());
  const auto top = static_cast<std::uint32_t>(std::bit_width(words_.back())) - 1;
  return Id(static_cast<std::uint32_t>(words_.size() - 1) * word_bits + top);
}

template <typename Id>
id_set<Id>& id_set<Id>::operator&=(const id_set& other) noexcept {
  if (words_.size() > other.words_.size()) {
    words_.resize(other.words_.size());
  }
  for (std::size_t word = 0; word < words_.size(); ++word) {
    words_[word] &= other.words_[word];
  }
  trim();
  return *this;
}

template <typename Id>
id_set<Id>& id_set<Id>::operator|=(const id_set& other) {
  if (words_.size() < other.words_.size()) {
    words_.resize(other.words_.size(), 0);
  }
  for (std::size_t word = 0; word < other.words_.size(); ++word) {
    words_[word] |= other.words_[word];
  }
  return *this;
}

template <typename Id>
id_set<Id>& id_set<Id>::operator-=(const id_set& other) noexcept {
  const std::size_t shared = std::min(words_.size(), other.words_.size());
  for (std::size_t word = 0; word < shared; ++word) {
    words_[word] &= ~other.words_[word];
  }
  trim();
  return *this;
}

template <typename Id>
std::string id_set<Id>::to_list() const {
  std::string list;
  for (std::uint32_t first = next_from(0); first != UINT32_MAX;) {
    std::uint32_t last = first;
    while (contains(Id(last + 1))) {
      ++last;
    }
    list += list.empty() ? "" : ",";
    list += std::to_string(first);
    if (last != first) {
      list += "-" + std::to_string(last);
    }
    first = next_from(last + 1);
  }
  return list;
}

template <typename Id>
void id_set<Id>::trim() noexcept {
  while (!words_.empty() && words_.back() == 0) {
    words_.pop_back();
  }
}

template class id_set<node_id>;
template class id_set<cpu_id>;

}  // namespace numapool
