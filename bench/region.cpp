// SPDX-License-Identifier: Apache-2.0
#include "region.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

namespace numapool::bench {

std::size_t base_page_bytes() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t huge_page_bytes() {
  static const std::size_t size = [] {
    const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
    std::string modes;
    std::getline(std::ifstream(folder + "enabled"), modes);
    std::size_t bytes = 0;
    std::ifstream(folder + "hpage_pmd_size") >> bytes;
    return modes.empty() || modes.find("[never]") != std::string::npos ? std::size_t{0} : bytes;
  }();
  return size;
}

void touch_pages(std::byte* data, std::size_t size_bytes) noexcept {
  const std::size_t page = base_page_bytes();
  for (std::size_t offset = 0; offset < size_bytes; offset += page) {
    *static_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
  *static_cast<volatile std::byte*>(data + size_bytes - 1) = std::byte{0};
}

region::region(std::size_t size_bytes, page_choice pages) : size_bytes_(size_bytes) {
  const std::size_t alignment = pages == page_choice::huge ? huge_page_bytes() : 0;
  mapped_bytes_ = size_bytes + alignment;
  void* const made =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "mmap");
  }
  mapped_ = made;
  data_ = static_cast<std::byte*>(made);
  if (alignment != 0) {
    const std::uintptr_t beyond = reinterpret_cast<std::uintptr_t>(made) % alignment;
    data_ += beyond == 0 ? 0 : alignment - beyond;
  }
  // Refused where the kernel is built without huge pages; then there is nothing to advise.
  ::madvise(data_, size_bytes_, pages == page_choice::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

region& region::operator=(region&& other) noexcept {
  region taken(std::move(other));
  std::swap(mapped_, taken.mapped_);
  std::swap(mapped_bytes_, taken.mapped_bytes_);
  std::swap(data_, taken.data_);
  std::swap(size_bytes_, taken.size_bytes_);
  return *this;
}

region::~region() {
  if (mapped_ != nullptr) {
    ::munmap(mapped_, mapped_bytes_);
  }
}

}  // namespace numapool::bench
