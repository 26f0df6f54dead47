// SPDX-License-Identifier: Apache-2.0

// What the kernel lets this process do with memory, by trying, and how it treats it.

#include <array>
#include <cstdint>
#include <string>

#include "base/text.hpp"
#include "diagnosis/checks.hpp"
#include "topology/kernel_files.hpp"

namespace numapool::diagnosis {
namespace {

using platform::error_code;

constexpr const char* seccomp_fix =
    "allow it in the seccomp profile, or give the container CAP_SYS_NICE (docker: --cap-add "
    "SYS_NICE)";

/// One page that is thrown away again.
class trial_page {
 public:
  explicit trial_page(platform::memory& memory) : memory_(memory) {
    platform::map_options options;
    options.size_bytes = memory.page_size_bytes();
    options.alignment_bytes = options.size_bytes;
    failed_ = memory.map(options, made_);
  }
  trial_page(const trial_page&) = delete;
  trial_page& operator=(const trial_page&) = delete;
  ~trial_page() {
    if (!failed_) {
      static_cast<void>(memory_.unmap(made_));
    }
  }
  [[nodiscard]] error_code failed() const { return failed_; }
  [[nodiscard]] error_code bind(node_id node) {
    return memory_.bind(made_.data, made_.size_bytes, platform::memory_policy::prefer, {node});
  }
  [[nodiscard]] error_code query() {
    if (const error_code failed = memory_.touch(made_.data, made_.size_bytes, made_.size_bytes)) {
      return failed;
    }
    std::array<int, 1> nodes{};
    const std::array<void*, 1> addresses{made_.data};
    return memory_.query_nodes(addresses, nodes);
  }

 private:
  platform::memory& memory_;
  platform::mapping made_;
  error_code failed_;
};

check policy_check(const error_code& failed) {
  if (!failed) {
    return {"memory_policy", check_status::ok, "allowed", "pages can be bound to a node", ""};
  }
  return {"memory_policy", check_status::warn, "refused: " + failed.message(),
          "nodes are reached by pinned threads touching the pages first, and strict is verified in "
          "full",
          seccomp_fix};
}

check query_check(const error_code& failed) {
  if (!failed) {
    return {"move_pages", check_status::ok, "allowed", "where pages are can be looked up", ""};
  }
  return {"move_pages", check_status::warn, "refused: " + failed.message(),
          "where pages are is read page by page or from numa_maps, which is slower", seccomp_fix};
}

/// CAP_IPC_LOCK, with which RLIMIT_MEMLOCK does not count.
bool may_lock_anything(const examination& job) {
  constexpr unsigned cap_ipc_lock = 14;  // capabilities(7)
  const std::string status = job.text("/proc/self/status");
  const auto value = kernel_files::value_of(status, "CapEff:");
  const auto mask = value ? base::parse_unsigned(*value, 16) : std::nullopt;
  return mask && ((*mask >> cap_ipc_lock) & 1U) != 0;
}

void check_pools(examination& job) {
  bool has_any = false;
  for (const node_info& node : job.nodes().nodes()) {
    for (const huge_page_pool& pool : node.huge_pages) {
      if (pool.total_pages == 0) {
        continue;
      }
      has_any = true;
      const bool is_used_up = pool.free_pages == 0;
      job.add({"huge_pages", is_used_up ? check_status::warn : check_status::ok,
               "node " + std::to_string(node.id.value()) + ": " + std::to_string(pool.free_pages) +
                   " of " + std::to_string(pool.total_pages) + " free, of " +
                   byte_text(pool.page_size_bytes),
               is_used_up ? "a request for pages of that size on that node is refused"
                          : "a request for pages of that size can be served",
               is_used_up ? "free or reserve some: nr_hugepages of that node in /sys" : ""});
    }
  }
  if (!has_any) {
    job.add({"huge_pages", check_status::info, "none reserved",
             "requests for 2MiB or 1GiB pages are refused; transparent huge pages need none",
             "only if you ask for them: write to /sys/devices/system/node/node*/hugepages/"
             "hugepages-*/nr_hugepages"});
  }
}

void check_defrag(examination& job) {
  const std::string defrag = job.choice("/sys/kernel/mm/transparent_hugepage/defrag");
  const bool is_eager = defrag == "always" || defrag == "madvise" || defrag == "defer+madvise";
  if (!defrag.empty()) {
    job.add({"huge_page_defrag", is_eager ? check_status::ok : check_status::info, defrag,
             is_eager ? "the kernel makes room for huge pages when they are asked for"
                      : "huge pages come only where there is room already",
             is_eager ? "" : "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag"});
  }
}

}  // namespace

void check_policy(examination& job) {
  trial_page page(job.machine().memory);
  if (page.failed()) {
    job.add({"memory_policy", check_status::fail, "not tried: " + page.failed().message(),
             "not even one page can be mapped", "raise the limits of this process (ulimit -v)"});
    return;
  }
  const node_set& allowed = job.nodes().allowed_nodes();
  const bool can_try = !allowed.empty() && job.nodes().source() == topology_source::sysfs;
  if (can_try) {
    job.add(policy_check(page.bind(allowed.front())));
  }
  job.add(query_check(page.query()));
}

void check_memlock(examination& job) {
  const std::uint64_t limit = job.machine().memory.lock_limit_bytes();
  if (limit == UINT64_MAX) {
    job.add({"memlock", check_status::ok, "unlimited", "any buffer can be locked", ""});
  } else if (may_lock_anything(job)) {
    job.add({"memlock", check_status::ok, byte_text(limit) + ", not enforced",
             "CAP_IPC_LOCK lets any buffer be locked", ""});
  } else {
    job.add({"memlock", check_status::warn, byte_text(limit),
             "buffers beyond that stay unlocked where CUDA does not pin them, and pin=mlock is "
             "refused",
             "ulimit -l unlimited (docker: --ulimit memlock=-1; systemd: LimitMEMLOCK=infinity)"});
  }
}

void check_huge_pages(examination& job) {
  const std::string mode = job.choice("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool is_on = mode == "always" || mode == "madvise";
  job.add({"transparent_huge_pages", is_on ? check_status::ok : check_status::warn,
           mode.empty() ? "not shown here" : mode,
           is_on ? "large buffers get huge pages"
                 : "buffers are filled page by page, which takes several times as long",
           is_on ? "" : "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  check_defrag(job);
  check_pools(job);
}

void check_numa_balancing(examination& job) {
  const std::string value = job.text("/proc/sys/kernel/numa_balancing");
  if (value.empty() || value == "0") {
    job.add({"numa_balancing", check_status::ok, value.empty() ? "not shown here" : "off",
             "the kernel leaves pages where they are", ""});
    return;
  }
  job.add({"numa_balancing", check_status::warn, "on (" + value + ")",
           "the kernel unmaps pages to see who uses them, which costs spikes of 8 to 31 ms "
           "(DeepEP#624)",
           "sysctl kernel.numa_balancing=0"});
}

}  // namespace numapool::diagnosis
