// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stands between numapool and any platform (a fake one or the running machine), counts each call
// that can fail, and lets chosen ones fail without being made. Threads: safe to share.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "platform/platform.hpp"

namespace numapool::test {

enum class seam_call {
  read_text,
  list_directory,
  start_thread,
  get_affinity,
  set_affinity,
  get_process_affinity,
  use_default_memory_policy,
  give_way_to_others,
  current_cpu,
  map,
  unmap,
  advise_huge_pages,
  advise_no_huge_pages,
  advise_dont_fork,
  populate_write,
  dont_need,
  bind,
  touch,
  lock_on_fault,
  query_nodes,
  query_node,
  scan_huge_bytes,
  read_huge_bytes,
  probe,
  pci_address,
  host_node,
  active_devices,
  register_range,
  unregister_range,
};
[[nodiscard]] std::string_view name(seam_call call) noexcept;
std::ostream& operator<<(std::ostream& stream, seam_call call);

class fault_injector {
 public:
  explicit fault_injector(platform::platform& below);
  ~fault_injector();
  fault_injector(const fault_injector&) = delete;
  fault_injector& operator=(const fault_injector&) = delete;

  [[nodiscard]] platform::platform& platform() noexcept;

  /// The nth call from now (1: the next), of whatever kind, fails once with `error_number` (an
  /// errno).
  void fail_nth(std::size_t nth, int error_number);
  /// The same, counting calls of one kind.
  void fail_nth_of(seam_call kind, std::size_t nth, int error_number);
  /// Every call of this kind fails from now on.
  void fail_all(seam_call kind, int error_number);
  /// Nothing fails any more; counts and trace begin anew.
  void reset();

  [[nodiscard]] std::optional<seam_call> fired()
      const;  ///< what fail_nth or fail_nth_of hit since they were asked
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t count(seam_call kind) const;
  [[nodiscard]] std::vector<seam_call> trace() const;  ///< every call, in order
  [[nodiscard]] std::size_t mappings() const;          ///< made through here and not unmapped

 private:
  class decorated_files;
  class decorated_threads;
  class decorated_memory;
  class decorated_registrar;
  friend class decorated_files;
  friend class decorated_threads;
  friend class decorated_memory;
  friend class decorated_registrar;

  struct plan {
    std::optional<seam_call> kind;  // empty: any
    std::size_t left = 0;           // fails when it gets to 0
    int error_number = 0;
  };
  [[nodiscard]] platform::error_code enter(seam_call kind);

  mutable std::mutex mutex_;
  std::optional<plan> plan_;
  std::map<seam_call, int> always_;
  void note_mappings(std::ptrdiff_t change);

  std::optional<seam_call> fired_;
  std::vector<seam_call> trace_;
  std::ptrdiff_t mappings_ = 0;

  std::unique_ptr<decorated_files> files_;
  std::unique_ptr<decorated_threads> threads_;
  std::unique_ptr<decorated_memory> memory_;
  std::unique_ptr<decorated_registrar> registrar_;
  std::unique_ptr<platform::platform> platform_;
};

}  // namespace numapool::test
