// SPDX-License-Identifier: Apache-2.0
#include "jemalloc_peer.hpp"

#include <jemalloc/jemalloc.h>

#include <string>

namespace numapool::bench {

const char* jemalloc_version() noexcept {
  static_assert(JEMALLOC_VERSION_MAJOR >= 5, "mallctl's names below are of jemalloc 5");
  constexpr const char* version =
#define NUMAPOOL_TEXT_OF(number) #number
#define NUMAPOOL_TEXT(number) NUMAPOOL_TEXT_OF(number)
      NUMAPOOL_TEXT(JEMALLOC_VERSION_MAJOR) "." NUMAPOOL_TEXT(
          JEMALLOC_VERSION_MINOR) "." NUMAPOOL_TEXT(JEMALLOC_VERSION_BUGFIX);
  return version;
}

void* jemalloc_zeroed(std::size_t size_bytes) noexcept {
  return mallocx(size_bytes, MALLOCX_ZERO);
}

void jemalloc_free(void* data) noexcept {
  dallocx(data, 0);
}

void jemalloc_settle() noexcept {
  static const std::string purge_all = "arena." + std::to_string(MALLCTL_ARENAS_ALL) + ".purge";
  mallctl(purge_all.c_str(), nullptr, nullptr, nullptr, 0);
}

}  // namespace numapool::bench
