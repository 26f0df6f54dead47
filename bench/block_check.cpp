// SPDX-License-Identifier: Apache-2.0
#include "block_check.hpp"

#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "region.hpp"

namespace numapool::bench {
namespace {

// An allocator's memory need not begin with a page.
std::byte* first_page(const std::byte* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  // The kernel's calls take what they only look at as if they wrote there.
  return const_cast<std::byte*>(data) - address % base_page_bytes();
}

std::size_t count_absent_pages(const std::byte* data, std::size_t size_bytes) {
  std::byte* const begin = first_page(data);
  const auto length = static_cast<std::size_t>(data + size_bytes - begin);
  std::vector<unsigned char> pages((length + base_page_bytes() - 1) / base_page_bytes());
  if (::mincore(begin, length, pages.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "mincore");
  }
  return static_cast<std::size_t>(std::count_if(
      pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) == 0; }));
}

}  // namespace

void check_resident_and_zero(const std::byte* data, std::size_t size_bytes) {
  // Before it is read: a read would make resident what is not.
  if (const std::size_t absent = count_absent_pages(data, size_bytes); absent != 0) {
    throw std::runtime_error(std::to_string(absent) + " pages are not resident");
  }
  // All bytes are as the one before, and the first is zero.
  if (data[0] != std::byte{0} || std::memcmp(data, data + 1, size_bytes - 1) != 0) {
    throw std::runtime_error("it is not zero");
  }
}

std::optional<double> share_on_node(const std::byte* data, std::size_t size_bytes, node_id node) {
  constexpr std::size_t looked_at = 64;
  const std::size_t step = size_bytes / looked_at / base_page_bytes() * base_page_bytes();
  std::array<void*, looked_at> pages{};
  for (std::size_t i = 0; i < looked_at; ++i) {
    pages[i] = first_page(data) + i * step;
  }
  std::array<int, looked_at> nodes{};
  if (::move_pages(0, looked_at, pages.data(), nullptr, nodes.data(), 0) != 0) {
    return std::nullopt;
  }
  const auto wanted = std::count(nodes.begin(), nodes.end(), static_cast<int>(node.value()));
  return static_cast<double>(wanted) / looked_at;
}

}  // namespace numapool::bench
