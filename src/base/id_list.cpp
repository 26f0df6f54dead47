// SPDX-License-Identifier: Apache-2.0
#include "base/id_list.hpp"

#include <cstddef>
#include <optional>
#include <string>

#include "base/failures.hpp"
#include "base/text.hpp"

namespace numapool::base {
namespace {

failure wrong_part(std::string_view part, std::string_view what) {
  return make_failure(errc::malformed_list, operation::parse,
                      quoted(part) + " is not part of a kernel list: " + std::string(what));
}

failure wrong_word(std::string_view word, std::string_view what) {
  return make_failure(errc::malformed_list, operation::parse,
                      quoted(word) + " is not a word of a kernel mask: " + std::string(what));
}

bool is_all_digits(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// One id of `part`; what it is wanted for goes into the message.
failure read_id(std::string_view part, std::string_view text, std::uint32_t id_max,
                std::uint32_t& id) {
  const std::string_view number = trimmed(text);
  if (!is_all_digits(number)) {
    return wrong_part(part, "write ids as \"3\" and ranges as \"0-15\"");
  }
  const std::optional<std::uint64_t> value = parse_unsigned(number);
  if (!value || *value > id_max) {
    return wrong_part(part, "ids end at " + std::to_string(id_max));
  }
  id = static_cast<std::uint32_t>(*value);
  return {};
}

failure read_range(std::string_view part, std::uint32_t id_max, id_range& range) {
  const std::size_t dash = part.find('-');
  if (failure wrong = read_id(part, part.substr(0, dash), id_max, range.first)) {
    return wrong;
  }
  if (dash == std::string_view::npos) {
    range.last = range.first;
    return {};
  }
  if (failure wrong = read_id(part, part.substr(dash + 1), id_max, range.last)) {
    return wrong;
  }
  if (range.last < range.first) {
    return wrong_part(part, "the range ends before it starts");
  }
  return {};
}

/// The set bits of one word as single ids; `base` is the id of its lowest bit.
failure read_word(std::string_view word, std::uint64_t base, std::uint32_t id_max,
                  std::vector<id_range>& ranges) {
  constexpr std::size_t digits_max = 8;  // 32 bits
  const std::optional<std::uint64_t> bits = parse_unsigned(word, 16);
  if (!bits || word.size() > digits_max) {
    return wrong_word(word, "words are one to eight hexadecimal digits");
  }
  for (std::uint64_t rest = *bits, id = base; rest != 0; rest >>= 1U, ++id) {
    if ((rest & 1U) == 0) {
      continue;
    }
    if (id > id_max) {
      return wrong_word(word, "ids end at " + std::to_string(id_max));
    }
    const auto found = static_cast<std::uint32_t>(id);
    ranges.push_back({found, found});
  }
  return {};
}

}  // namespace

failure read_id_list(std::string_view text, std::uint32_t id_max, std::vector<id_range>& ranges) {
  for (std::string_view part : split(text, ',')) {
    part = trimmed(part);
    if (part.empty()) {
      continue;
    }
    id_range range;
    if (failure wrong = read_range(part, id_max, range)) {
      return wrong;
    }
    ranges.push_back(range);
  }
  return {};
}

failure read_id_mask(std::string_view text, std::uint32_t id_max, std::vector<id_range>& ranges) {
  constexpr std::uint64_t bits_of_word = 32;
  const std::string_view mask = trimmed(text);
  if (mask.empty()) {
    return {};
  }
  const std::vector<std::string_view> words = split(mask, ',');
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string_view word = trimmed(words[words.size() - 1 - index]);
    if (failure wrong = read_word(word, index * bits_of_word, id_max, ranges)) {
      return wrong;
    }
  }
  return {};
}

}  // namespace numapool::base
