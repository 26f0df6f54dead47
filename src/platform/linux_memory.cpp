// SPDX-License-Identifier: Apache-2.0
#include "platform/linux_memory.hpp"

#include <fcntl.h>
#include <numaif.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <memory>

#include "base/check.hpp"
#include "base/failures.hpp"

// Newer than Debian 12's headers; the values are the kernel's ABI (linux/mman.h 5.14, linux/prctl.h
// 5.17).
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24  // Linux 5.18
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MPOL_F_STATIC_NODES
#define MPOL_F_STATIC_NODES (1 << 15)
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

namespace numapool::platform {
namespace {

using base::last_system_error;

// ioctl PAGEMAP_SCAN of linux/fs.h, Linux 6.7 (Documentation/admin-guide/mm/pagemap.rst); not in
// Debian 12's headers.
struct page_region {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
struct pagemap_scan {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t vec;
  std::uint64_t vec_len;
  std::uint64_t max_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_anyof_mask;
  std::uint64_t return_mask;
};
constexpr std::uint64_t page_is_huge = 1U << 6U;
constexpr auto pagemap_scan_command = _IOWR('f', 16, pagemap_scan);

std::uint64_t number_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

int madvise_number(advice what) noexcept {
  switch (what) {
    case advice::huge_pages:
      return MADV_HUGEPAGE;
    case advice::no_huge_pages:
      return MADV_NOHUGEPAGE;
    case advice::dont_fork:
      return MADV_DONTFORK;
    case advice::populate_write:
      return MADV_POPULATE_WRITE;
    case advice::dont_need:
      return MADV_DONTNEED_LOCKED;
  }
  base::check_failed("advice is known", __FILE__, __LINE__);
}

// A file descriptor that closes itself.
class descriptor {
 public:
  explicit descriptor(int number) noexcept : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

// Keeps the processor from running ahead of a store that faults, into page walks for the pages
// after it, which are not there either. Touching base pages took 2.1 us a page without and 1.75 us
// with it (AMD Zen 4, virtual machine); where it brings nothing it costs some 10 ns.
void stop_speculation() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#endif
}

std::byte* align_up(std::byte* address, std::size_t alignment) noexcept {
  const std::uintptr_t value = number_of(address);
  return address + ((alignment - value % alignment) % alignment);
}

}  // namespace

std::size_t linux_memory::page_size_bytes() const noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// First a reservation of inaccessible addresses with room for alignment and two guard pages, then
// the memory itself in its middle. What is left on both sides stays: adjacent mappings of one kind
// merge, and numa_maps would count a neighbour's pages; and addresses cost nothing, while to give
// them back takes two more calls that hold the address-space lock.
error_code linux_memory::map(const map_options& options, mapping& made) {
  const std::size_t page = page_size_bytes();
  NUMAPOOL_CHECK(std::has_single_bit(options.alignment_bytes) && options.alignment_bytes >= page);
  NUMAPOOL_CHECK(options.size_bytes > 0 && options.size_bytes % page == 0);
  std::size_t wanted = 0;
  if (__builtin_add_overflow(options.size_bytes, options.alignment_bytes + 2 * page, &wanted)) {
    return base::system_error(ENOMEM);
  }
  void* reserved =
      ::mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return last_system_error();
  }
  auto* const begin = static_cast<std::byte*>(reserved);
  std::byte* const data = align_up(begin + page, options.alignment_bytes);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (options.huge_page_size_bytes != 0) {
    flags |= MAP_HUGETLB | (std::countr_zero(options.huge_page_size_bytes) << MAP_HUGE_SHIFT);
  }
  if (::mmap(data, options.size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    const error_code error = last_system_error();
    NUMAPOOL_CHECK(::munmap(reserved, wanted) == 0);
    return error;
  }
  // So that /proc/PID/maps says whose it is. Kernels without CONFIG_ANON_VMA_NAME refuse; nothing
  // depends on it.
  ::prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, number_of(data), options.size_bytes, "numapool");
  made = {data, options.size_bytes, begin, wanted};
  return {};
}

error_code linux_memory::unmap(const mapping& made) {
  return ::munmap(made.reservation, made.reserved_bytes) == 0 ? error_code() : last_system_error();
}

// Before Linux 5.18 locked pages are not given back (EINVAL), and others by the older call.
error_code linux_memory::advise(std::byte* data, std::size_t size_bytes, advice what) {
  int result = 0;
  do {
    result = ::madvise(data, size_bytes, madvise_number(what));
  } while (result != 0 && errno == EINTR);  // MADV_POPULATE_WRITE stops at signals
  if (result != 0 && errno == EINVAL && what == advice::dont_need) {
    result = ::madvise(data, size_bytes, MADV_DONTNEED);
  }
  return result == 0 ? error_code() : last_system_error();
}

error_code linux_memory::bind(std::byte* data, std::size_t size_bytes, memory_policy policy,
                              const node_set& nodes) {
  NUMAPOOL_CHECK(!nodes.empty());
  const std::span<const std::uint64_t> words = nodes.words();
  std::vector<unsigned long> mask(words.begin(), words.end());
  // The kernel drops the last bit that it is told of (mm/mempolicy.c, get_nodes), so it is told of
  // one more.
  const unsigned long bits = mask.size() * 64 + 1;
  const int mode =
      (policy == memory_policy::bind ? MPOL_BIND : MPOL_PREFERRED) | MPOL_F_STATIC_NODES;
  return ::mbind(data, size_bytes, mode, mask.data(), bits, 0) == 0 ? error_code()
                                                                    : last_system_error();
}

error_code linux_memory::touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) {
  for (std::size_t offset = 0; offset < size_bytes; offset += step_bytes) {
    *static_cast<volatile std::byte*>(data + offset) = std::byte{0};
    stop_speculation();
  }
  return {};
}

error_code linux_memory::lock_on_fault(std::byte* data, std::size_t size_bytes) {
  return ::mlock2(data, size_bytes, MLOCK_ONFAULT) == 0 ? error_code() : last_system_error();
}

std::uint64_t linux_memory::lock_limit_bytes() const noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return UINT64_MAX;
  }
  return limit.rlim_cur;
}

error_code linux_memory::query_nodes(std::span<void* const> addresses, std::span<int> nodes) const {
  NUMAPOOL_CHECK(addresses.size() == nodes.size());
  // The kernel only reads the array of addresses; the prototype lacks the const.
  auto* pages = const_cast<void**>(addresses.data());
  return ::move_pages(0, addresses.size(), pages, nullptr, nodes.data(), 0) == 0
             ? error_code()
             : last_system_error();
}

error_code linux_memory::query_node(const std::byte* address, int& node) const {
  int answer = -1;
  auto* page = const_cast<std::byte*>(address);  // read only, as above
  if (::get_mempolicy(&answer, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR) != 0) {
    return last_system_error();
  }
  node = answer;
  return {};
}

error_code linux_memory::scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                         std::size_t& huge_bytes) const {
  const descriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (pagemap.number() < 0) {
    return last_system_error();
  }
  std::array<page_region, 64> regions{};
  pagemap_scan scan{};
  scan.size = sizeof(scan);
  scan.start = number_of(data);
  scan.end = number_of(data + size_bytes);
  scan.vec = number_of(regions.data());
  scan.vec_len = regions.size();
  scan.category_mask = page_is_huge;
  scan.return_mask = page_is_huge;
  std::size_t found = 0;
  while (scan.start < scan.end) {
    const int count = ::ioctl(pagemap.number(), pagemap_scan_command, &scan);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return last_system_error();
    }
    for (const page_region& region : std::span(regions).first(static_cast<std::size_t>(count))) {
      found += region.end - region.start;
    }
    if (scan.walk_end <= scan.start) {
      break;
    }
    scan.start = scan.walk_end;
  }
  huge_bytes = found;
  return {};
}

error_code linux_memory::read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                         std::size_t& huge_bytes) const {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> smaps(std::fopen("/proc/self/smaps", "re"),
                                                              &std::fclose);
  if (smaps == nullptr) {
    return last_system_error();
  }
  const std::uint64_t first = number_of(data);
  const std::uint64_t last = number_of(data + size_bytes);
  bool inside = false;
  std::size_t found = 0;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), smaps.get()) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long kib = 0;
    if (std::sscanf(line.data(), "%lx-%lx ", &begin, &end) == 2) {
      if (begin >= last) {
        break;  // mappings are listed in ascending order
      }
      inside = begin < last && end > first;
    } else if (inside && std::sscanf(line.data(), "AnonHugePages: %lu kB", &kib) == 1) {
      found += kib * 1024;
    }
  }
  huge_bytes = std::min(found, size_bytes);
  return {};
}

}  // namespace numapool::platform
