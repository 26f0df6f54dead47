// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seam between numapool and the machine: four interfaces, mechanism only. No policy, no retry
// beyond EINTR, no logging. Nothing else in the tree includes <sys/mman.h>, <sched.h>, <pthread.h>,
// <numaif.h> or opens /sys and /proc.
//
// Common to all: every function returns an error code captured next to the call (system category:
// errno; CUDA's own categories for the registrar), and on an error leaves outputs untouched and the
// machine as it was. Addresses are page aligned, sizes positive multiples of the page. All are safe
// to call from any thread. Implementations are stateless or lock for themselves; the real ones are
// never destroyed, so that buffers may outlive everything.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/system/error_code.hpp>

#include <numapool/node.hpp>

#include "platform/nvml.hpp"
#include "platform/programs.hpp"
#include "platform/registrar.hpp"

namespace numapool::platform {

using boost::system::error_code;

/// Text files of the kernel, below a root folder.
class files {
 public:
  virtual ~files() = default;
  /// The whole file at `path` ("/sys/..." or "/proc/..."), at most 64 MiB (EFBIG above).
  virtual error_code read_text(const std::string& path, std::string& text) const = 0;
  /// Names in the folder, unordered, without "." and "..".
  virtual error_code list_directory(const std::string& path,
                                    std::vector<std::string>& names) const = 0;
  /// Whether this is the running machine, whose system calls may be asked too.
  [[nodiscard]] virtual bool is_this_machine() const noexcept = 0;
};

/// A started thread. Destroying a joinable one is a bug (checked, aborts).
class thread {
 public:
  virtual ~thread() = default;
  virtual void join() noexcept = 0;
};

class threads {
 public:
  virtual ~threads() = default;
  /// Starts `body` on a thread named `name` (at most 15 characters), from its first instruction on
  /// `cpus`; empty: where the caller may run. EAGAIN when the system refuses threads, EINVAL when
  /// none of `cpus` can be used.
  virtual error_code start(const std::string& name, const cpu_set& cpus, std::function<void()> body,
                           std::unique_ptr<thread>& started) = 0;
  /// The calling thread's mask.
  virtual error_code get_affinity(cpu_set& cpus) const = 0;
  virtual error_code set_affinity(const cpu_set& cpus) = 0;
  /// The mask of the process's main thread.
  virtual error_code get_process_affinity(cpu_set& cpus) const = 0;
  /// set_mempolicy(MPOL_DEFAULT) for the calling thread: its own node first, whatever the process
  /// inherited.
  virtual error_code use_default_memory_policy() = 0;
  /// SCHED_BATCH for the calling thread: when it wakes it takes the CPU from nobody (sched(7)).
  virtual error_code give_way_to_others() = 0;
  /// getcpu(2), by the system call: the node is the kernel's own word.
  virtual error_code current_cpu(cpu_id& cpu, node_id& node) const = 0;
  /// CPU time of the calling thread so far: what it waits for a CPU is not in it.
  [[nodiscard]] virtual std::chrono::nanoseconds cpu_time() const noexcept = 0;
  /// Changes in the child after a fork, and only then.
  [[nodiscard]] virtual std::uint64_t process_generation() const noexcept = 0;
};

/// A range of memory with an inaccessible page on both sides.
struct mapping {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;        // usable
  std::byte* reservation = nullptr;  // guards and alignment slack included
  std::size_t reserved_bytes = 0;
};

struct map_options {
  std::size_t size_bytes = 0;
  std::size_t alignment_bytes = 0;       // of data; a power of two, at least the page
  std::size_t huge_page_size_bytes = 0;  // hugetlb of that size; 0: base pages
};

enum class advice : std::uint8_t {
  huge_pages,
  no_huge_pages,
  dont_fork,
  populate_write,
  dont_need  // gives the pages back, locked ones too
};
enum class memory_policy : std::uint8_t { prefer, bind };

class memory {
 public:
  virtual ~memory() = default;
  [[nodiscard]] virtual std::size_t page_size_bytes() const noexcept = 0;
  /// Private, anonymous, zero, not resident, writable; guards around it.
  virtual error_code map(const map_options& options, mapping& made) = 0;
  virtual error_code unmap(const mapping& made) = 0;
  virtual error_code advise(std::byte* data, std::size_t size_bytes, advice what) = 0;
  /// mbind(2) for pages not yet touched, with MPOL_F_STATIC_NODES: a cpuset changed later must not
  /// remap it.
  virtual error_code bind(std::byte* data, std::size_t size_bytes, memory_policy policy,
                          const node_set& nodes) = 0;
  /// Writes a zero byte into each `step_bytes`. Only for memory that is still zero.
  virtual error_code touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) = 0;
  /// mlock2(MLOCK_ONFAULT): pages lock as they become resident.
  virtual error_code lock_on_fault(std::byte* data, std::size_t size_bytes) = 0;
  /// RLIMIT_MEMLOCK, soft; UINT64_MAX when there is none.
  [[nodiscard]] virtual std::uint64_t lock_limit_bytes() const noexcept = 0;
  /// move_pages(2) as a query: for each address the node, or a negative errno (-ENOENT: not
  /// resident).
  virtual error_code query_nodes(std::span<void* const> addresses, std::span<int> nodes) const = 0;
  /// get_mempolicy(2) with MPOL_F_NODE | MPOL_F_ADDR: the node of a resident page.
  virtual error_code query_node(const std::byte* address, int& node) const = 0;
  /// Bytes of the range that are in huge pages, by PAGEMAP_SCAN (Linux 6.7; ENOTTY before):
  /// microseconds a GiB.
  virtual error_code scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                     std::size_t& huge_bytes) const = 0;
  /// The same from /proc/self/smaps: walks the page tables of every mapping below the range.
  virtual error_code read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                                     std::size_t& huge_bytes) const = 0;
};

/// Them together. They outlive everything that holds a reference. A null member is not there to be
/// asked.
struct platform {
  numapool::platform::files& files;
  numapool::platform::threads& threads;
  numapool::platform::memory& memory;
  numapool::platform::registrar& registrar;
  numapool::platform::nvml* nvml = nullptr;
  numapool::platform::programs* programs = nullptr;
  /// Large buffers may be given back later, by a thread of the library's own: it all lives as long
  /// as the process.
  bool releases_in_background = false;
};

/// The running machine; never destroyed.
[[nodiscard]] platform& this_machine() noexcept;
/// Files below `root`; empty: the running machine's. Below a root neither ".." nor an absolute link
/// leads out of it, and what is neither file nor folder is EINVAL: a recording came from elsewhere.
[[nodiscard]] std::unique_ptr<files> files_below(const std::string& root);

}  // namespace numapool::platform
