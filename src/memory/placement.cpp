// SPDX-License-Identifier: Apache-2.0
#include "memory/placement.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "memory/buffer_state.hpp"

namespace numapool::memory {
namespace {

constexpr std::size_t samples_max =
    64;  // a sample reads in 6 us where every 4 KiB page of 1 GiB takes 31 ms
constexpr std::size_t batch_pages = 1024;  // 12 KiB of arrays, whatever the size of the buffer

using counts = std::map<node_id, std::size_t>;

// The addresses to ask about: every page, or samples spread evenly with the first and the last
// among them.
class page_walk {
 public:
  page_walk(const measured_range& range, verify_policy how)
      : range_(range),
        pages_((range.size_bytes + range.page_size_bytes - 1) / range.page_size_bytes),
        asked_(how == verify_policy::full ? pages_ : std::min(pages_, samples_max)) {}

  [[nodiscard]] std::size_t size() const noexcept { return asked_; }
  [[nodiscard]] std::byte* address(std::size_t index) const noexcept {
    const std::size_t page = asked_ == pages_ ? index : index * (pages_ - 1) / (asked_ - 1);
    return range_.data + page * range_.page_size_bytes;
  }

 private:
  const measured_range& range_;
  std::size_t pages_;
  std::size_t asked_;
};

node_id node_of_answer(int answer) noexcept {
  return answer < 0 ? node_id::unknown : node_id(static_cast<std::uint32_t>(answer));
}

platform::error_code ask_move_pages(const platform::memory& memory, const page_walk& walk,
                                    counts& found) {
  std::array<void*, batch_pages> addresses{};
  std::array<int, batch_pages> nodes{};
  for (std::size_t done = 0; done < walk.size();) {
    const std::size_t count = std::min(batch_pages, walk.size() - done);
    for (std::size_t i = 0; i < count; ++i) {
      addresses[i] = walk.address(done + i);
    }
    if (const auto error =
            memory.query_nodes(std::span(addresses).first(count), std::span(nodes).first(count))) {
      return error;
    }
    for (const int answer : std::span(nodes).first(count)) {
      ++found[node_of_answer(answer)];
    }
    done += count;
  }
  return {};
}

platform::error_code ask_get_mempolicy(const platform::memory& memory, const page_walk& walk,
                                       counts& found) {
  for (std::size_t i = 0; i < walk.size(); ++i) {
    int node = -1;
    if (const auto error = memory.query_node(walk.address(i), node)) {
      return error;
    }
    ++found[node_of_answer(node)];
  }
  return {};
}

std::vector<pages_on_node> to_vector(const counts& found, std::size_t weight) {
  std::vector<pages_on_node> by_node;
  for (const auto& [node, pages] : found) {
    by_node.push_back({node, pages * weight});
  }
  return by_node;
}

// Fills `result` from numa_maps, which answers for the whole mapping whatever was asked.
platform::error_code ask_numa_maps(const platform::platform& machine, const measured_range& range,
                                   placement& result) {
  std::string text;
  if (const auto error = machine.files.read_text("/proc/self/numa_maps", text)) {
    return error;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data);
  result.by_node =
      read_numa_maps(text, begin, begin + range.size_bytes, machine.memory.page_size_bytes());
  if (result.by_node.empty()) {
    return {ENOENT, boost::system::system_category()};
  }
  result.by = witness::numa_maps;
  result.verified = verify_policy::full;
  return {};
}

void count_shares(placement& result, node_id wanted) {
  std::size_t on_node = 0;
  for (const pages_on_node& entry : result.by_node) {
    result.pages_checked += entry.pages;
    on_node += entry.node == wanted && !wanted.is_unknown() ? entry.pages : 0;
  }
  if (result.pages_checked > 0) {
    result.share_on_node = static_cast<double>(on_node) / static_cast<double>(result.pages_checked);
  }
}

template <typename Number>
std::optional<Number> read_number(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

// "N0=512 N1=3 kernelpagesize_kB=4": counts are in pages of the size that the line ends with.
void add_numa_maps_line(std::string_view line, std::size_t base_page_bytes, counts& sum) {
  counts found;
  std::size_t page_bytes = base_page_bytes;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const auto value = read_number<std::size_t>(word.substr(equals + 1));
    if (!value) {
      continue;
    }
    if (word.substr(0, equals) == "kernelpagesize_kB") {
      page_bytes = *value * 1024;
    } else if (word.front() == 'N') {
      if (const auto node = read_number<std::uint32_t>(word.substr(1, equals - 1))) {
        found[node_id(*node)] += *value;
      }
    }
  }
  for (const auto& [node, pages] : found) {
    sum[node] += pages * std::max<std::size_t>(page_bytes / base_page_bytes, 1);
  }
}

}  // namespace

measured_range measured_range::of(const buffer_state& state) {
  const std::size_t base = state.machine->memory.page_size_bytes();
  const bool all_huge =
      state.pages.kind != page_kind::base && state.pages.huge_bytes == state.mapped.size_bytes;
  return {state.mapped.data, state.mapped.size_bytes, all_huge ? state.pages.page_size_bytes : base,
          state.node_requested};
}

placement measure_placement(const platform::platform& machine, const measured_range& range,
                            verify_policy how) {
  placement result;
  if (how == verify_policy::off) {
    return result;
  }
  const page_walk walk(range, how);
  const std::size_t weight = range.page_size_bytes / machine.memory.page_size_bytes();
  result.verified = how;
  counts found;
  if (const auto error = ask_move_pages(machine.memory, walk, found); !error) {
    result.by = witness::move_pages;
    result.by_node = to_vector(found, weight);
  } else {
    result.error = error;
    found.clear();
    if (!ask_get_mempolicy(machine.memory, walk, found)) {
      result.by = witness::get_mempolicy;
      result.by_node = to_vector(found, weight);
    } else if (ask_numa_maps(machine, range, result)) {
      result.verified = verify_policy::off;
    }
  }
  count_shares(result, range.node);
  return result;
}

// A range has a line for each part whose advice differs: where huge pages were given up midway.
std::vector<pages_on_node> read_numa_maps(std::string_view text, std::uint64_t begin,
                                          std::uint64_t end, std::size_t base_page_bytes) {
  counts found;
  while (!text.empty()) {
    const std::size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, line_end);
    text.remove_prefix(std::min(line_end + 1, text.size()));
    const auto address = read_number<std::uint64_t>(next_word(line), 16);
    if (address && *address >= begin && *address < end) {
      add_numa_maps_line(line, base_page_bytes, found);
    }
  }
  return to_vector(found, 1);
}

}  // namespace numapool::memory
