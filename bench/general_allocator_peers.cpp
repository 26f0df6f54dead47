// SPDX-License-Identifier: Apache-2.0
#include "memory_peers.hpp"
#include "region.hpp"

#if NUMAPOOL_PEER_MIMALLOC
#include <dlfcn.h>
#include <mimalloc.h>
#endif
#if NUMAPOOL_PEER_JEMALLOC
#include "jemalloc_peer.hpp"
#endif
#if NUMAPOOL_PEER_TBBMALLOC
#include <tbb/scalable_allocator.h>
#include <tbb/version.h>
#endif

namespace numapool::bench {
namespace {

#if NUMAPOOL_PEER_MIMALLOC
// Linked, Debian's libmimalloc.so would become this program's malloc. So it is loaded, seen by
// nobody else (RTLD_LOCAL) and itself seeing its own names first (RTLD_DEEPBIND); it stays until
// the program ends.
void add_mimalloc(memory_peers& peers, peer_report& report) {
  void* const library =
      ::dlopen(NUMAPOOL_MIMALLOC_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND | RTLD_NODELETE);
  if (library == nullptr) {
    report.note_missing("mimalloc", ::dlerror());
    return;
  }
  const auto version = reinterpret_cast<decltype(&::mi_version)>(::dlsym(library, "mi_version"));
  const auto zeroed = reinterpret_cast<decltype(&::mi_zalloc)>(::dlsym(library, "mi_zalloc"));
  const auto free = reinterpret_cast<decltype(&::mi_free)>(::dlsym(library, "mi_free"));
  const auto collect = reinterpret_cast<decltype(&::mi_collect)>(::dlsym(library, "mi_collect"));
  if (version == nullptr || zeroed == nullptr || free == nullptr || collect == nullptr) {
    report.note_missing("mimalloc", NUMAPOOL_MIMALLOC_LIBRARY " lacks functions of its own header");
    return;
  }
  const int number = version();  // 209 is 2.0.9, also where it calls itself 2.0
  report.versions.push_back("mimalloc " + std::to_string(number / 100) + "." +
                            std::to_string(number / 10 % 10) + "." + std::to_string(number % 10));
  peers.push_back({"mimalloc mi_zalloc, touched",
                   [zeroed, free](std::size_t size_bytes) {
                     block made = block_of(zeroed(size_bytes), free);
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   [collect] {
                     collect(true);
                   }});
}
#else
void add_mimalloc(memory_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("mimalloc", "peers");
}
#endif

#if NUMAPOOL_PEER_JEMALLOC
void add_jemalloc(memory_peers& peers, peer_report& report) {
  report.versions.push_back(std::string("jemalloc ") + jemalloc_version());
  peers.push_back({"jemalloc mallocx(MALLOCX_ZERO), touched",
                   [](std::size_t size_bytes) {
                     block made = block_of(jemalloc_zeroed(size_bytes), jemalloc_free);
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   [] {
                     jemalloc_settle();
                   }});
}
#else
void add_jemalloc(memory_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("jemalloc", "peers");
}
#endif

#if NUMAPOOL_PEER_TBBMALLOC
// Its malloc is another library, libtbbmalloc_proxy, which is not linked.
void add_tbbmalloc(memory_peers& peers, peer_report& /*report*/) {
  peers.push_back({"oneTBB scalable_calloc, touched",
                   [](std::size_t size_bytes) {
                     block made = block_of(scalable_calloc(1, size_bytes), scalable_free);
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   [] {
                     scalable_allocation_command(TBBMALLOC_CLEAN_ALL_BUFFERS, nullptr);
                   }});
}
#else
void add_tbbmalloc(memory_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("oneTBB's allocator", "peers");
}
#endif

}  // namespace

void add_general_allocators(memory_peers& peers, peer_report& report) {
  add_mimalloc(peers, report);
  add_jemalloc(peers, report);
  add_tbbmalloc(peers, report);
}

}  // namespace numapool::bench
