// SPDX-License-Identifier: Apache-2.0
#include <numa.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "memory_peers.hpp"
#include "raw_fill.hpp"
#include "region.hpp"

#if NUMAPOOL_PEER_HWLOC
#include <hwloc.h>
#endif
#if NUMAPOOL_PEER_MEMKIND
#include <memkind.h>
#endif

namespace numapool::bench {
namespace {

void add_libnuma(memory_peers& peers, node_id node, peer_report& report) {
  if (numa_available() < 0) {
    report.note_missing("libnuma", "this kernel has no NUMA calls");
    return;
  }
  const int number = static_cast<int>(node.value());
  peers.push_back({"libnuma numa_alloc_onnode, touched",
                   [number](std::size_t size_bytes) {
                     const auto free = [size_bytes](void* data) {
                       numa_free(data, size_bytes);
                     };
                     block made = block_of(numa_alloc_onnode(size_bytes, number), free);
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   {}});
}

#if NUMAPOOL_PEER_HWLOC
struct hwloc_node {
  hwloc_topology_t topology = nullptr;
  hwloc_nodeset_t nodes = nullptr;

  explicit hwloc_node(node_id node) {
    if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
      throw std::bad_alloc();
    }
    nodes = hwloc_bitmap_alloc();
    hwloc_bitmap_only(nodes, node.value());
  }
  ~hwloc_node() {
    hwloc_bitmap_free(nodes);
    hwloc_topology_destroy(topology);
  }
  hwloc_node(const hwloc_node&) = delete;
  hwloc_node& operator=(const hwloc_node&) = delete;
};

void add_hwloc(memory_peers& peers, node_id node, peer_report& report) {
  const auto machine = std::make_shared<hwloc_node>(node);
  report.versions.emplace_back("hwloc " HWLOC_VERSION);
  peers.push_back({"hwloc_alloc_membind, touched",
                   [machine](std::size_t size_bytes) {
                     block made = block_of(
                         hwloc_alloc_membind(machine->topology, size_bytes, machine->nodes,
                                             HWLOC_MEMBIND_BIND,
                                             HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT),
                         [machine, size_bytes](void* data) {
                           hwloc_free(machine->topology, data, size_bytes);
                         });
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   {}});
}
#else
void add_hwloc(memory_peers& /*peers*/, node_id /*node*/, peer_report& report) {
  report.note_not_built_in("hwloc", "peers");
}
#endif

#if NUMAPOOL_PEER_MEMKIND
// Zeroed by memkind, which knows what comes from the kernel and is zero already.
void add_kind(memory_peers& peers, const std::string& name, memkind_t kind) {
  peers.push_back({name,
                   [kind](std::size_t size_bytes) {
                     block made = block_of(memkind_calloc(kind, 1, size_bytes),
                                           [kind](void* data) { memkind_free(kind, data); });
                     touch_pages(made.data, size_bytes);
                     return made;
                   },
                   {}});
}

void add_memkind(memory_peers& peers, peer_report& report) {
  const int version = memkind_get_version();  // 1014000 is 1.14.0
  report.versions.push_back("memkind " + std::to_string(version / 1000000) + "." +
                            std::to_string(version / 1000 % 1000) + "." +
                            std::to_string(version % 1000));
  add_kind(peers, "memkind MEMKIND_DEFAULT, touched", MEMKIND_DEFAULT);
  const std::string huge = "memkind MEMKIND_HUGETLB";
  if (memkind_check_available(MEMKIND_HUGETLB) == MEMKIND_SUCCESS) {
    add_kind(peers, huge + ", touched", MEMKIND_HUGETLB);
  } else {
    report.note_missing(huge, "no huge page pool here");
  }
}
#else
void add_memkind(memory_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("memkind", "peers");
}
#endif

}  // namespace

void add_kernel_calls(memory_peers& peers) {
  const auto one_thread = std::make_shared<raw_filler>(1);
  for (const auto& [name, pages] :
       {std::pair{"mmap, MADV_POPULATE_WRITE", page_choice::base},
        std::pair{"mmap, MADV_HUGEPAGE, MADV_POPULATE_WRITE", page_choice::huge}}) {
    peers.push_back({name,
                     [one_thread, pages = pages](std::size_t size_bytes) {
                       const auto made = std::make_shared<region>(
                           one_thread->fill(size_bytes, {pages, fill_choice::call}));
                       return block{made, made->data()};
                     },
                     {}});
  }
}

void add_node_libraries(memory_peers& peers, node_id node, peer_report& report) {
  add_libnuma(peers, node, report);
  add_hwloc(peers, node, report);
  add_memkind(peers, report);
}

}  // namespace numapool::bench
