// SPDX-License-Identifier: Apache-2.0
#include "support/fault_injector.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/failures.hpp"

namespace numapool::test {

using platform::advice;
using platform::error_code;

std::string_view name(seam_call call) noexcept {
  static constexpr std::array<std::string_view, 29> names{"read_text",
                                                          "list_directory",
                                                          "start_thread",
                                                          "get_affinity",
                                                          "set_affinity",
                                                          "get_process_affinity",
                                                          "use_default_memory_policy",
                                                          "give_way_to_others",
                                                          "current_cpu",
                                                          "map",
                                                          "unmap",
                                                          "advise_huge_pages",
                                                          "advise_no_huge_pages",
                                                          "advise_dont_fork",
                                                          "populate_write",
                                                          "dont_need",
                                                          "bind",
                                                          "touch",
                                                          "lock_on_fault",
                                                          "query_nodes",
                                                          "query_node",
                                                          "scan_huge_bytes",
                                                          "read_huge_bytes",
                                                          "probe",
                                                          "pci_address",
                                                          "host_node",
                                                          "active_devices",
                                                          "register_range",
                                                          "unregister_range"};
  return names.at(static_cast<std::size_t>(call));
}

std::ostream& operator<<(std::ostream& stream, seam_call call) {
  return stream << name(call);
}

class fault_injector::decorated_files final : public platform::files {
 public:
  decorated_files(fault_injector& owner, platform::files& below) : owner_(owner), below_(below) {}
  error_code read_text(const std::string& path, std::string& text) const override {
    const auto failed = owner_.enter(seam_call::read_text);
    return failed ? failed : below_.read_text(path, text);
  }
  error_code list_directory(const std::string& path,
                            std::vector<std::string>& names) const override {
    const auto failed = owner_.enter(seam_call::list_directory);
    return failed ? failed : below_.list_directory(path, names);
  }
  [[nodiscard]] bool is_this_machine() const noexcept override { return below_.is_this_machine(); }

 private:
  fault_injector& owner_;
  platform::files& below_;
};

class fault_injector::decorated_threads final : public platform::threads {
 public:
  decorated_threads(fault_injector& owner, platform::threads& below)
      : owner_(owner), below_(below) {}
  error_code start(const std::string& name, const cpu_set& cpus, std::function<void()> body,
                   std::unique_ptr<platform::thread>& started) override {
    const auto failed = owner_.enter(seam_call::start_thread);
    return failed ? failed : below_.start(name, cpus, std::move(body), started);
  }
  error_code get_affinity(cpu_set& cpus) const override {
    const auto failed = owner_.enter(seam_call::get_affinity);
    return failed ? failed : below_.get_affinity(cpus);
  }
  error_code set_affinity(const cpu_set& cpus) override {
    const auto failed = owner_.enter(seam_call::set_affinity);
    return failed ? failed : below_.set_affinity(cpus);
  }
  error_code get_process_affinity(cpu_set& cpus) const override {
    const auto failed = owner_.enter(seam_call::get_process_affinity);
    return failed ? failed : below_.get_process_affinity(cpus);
  }
  error_code use_default_memory_policy() override {
    const auto failed = owner_.enter(seam_call::use_default_memory_policy);
    return failed ? failed : below_.use_default_memory_policy();
  }
  error_code give_way_to_others() override {
    const auto failed = owner_.enter(seam_call::give_way_to_others);
    return failed ? failed : below_.give_way_to_others();
  }
  error_code current_cpu(cpu_id& cpu, node_id& node) const override {
    const auto failed = owner_.enter(seam_call::current_cpu);
    return failed ? failed : below_.current_cpu(cpu, node);
  }
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const noexcept override {
    return below_.cpu_time();
  }
  [[nodiscard]] std::uint64_t process_generation() const noexcept override {
    return below_.process_generation();
  }

 private:
  fault_injector& owner_;
  platform::threads& below_;
};

class fault_injector::decorated_memory final : public platform::memory {
 public:
  decorated_memory(fault_injector& owner, platform::memory& below) : owner_(owner), below_(below) {}
  [[nodiscard]] std::size_t page_size_bytes() const noexcept override {
    return below_.page_size_bytes();
  }
  error_code map(const platform::map_options& options, platform::mapping& made) override {
    auto failed = owner_.enter(seam_call::map);
    if (!failed) {
      failed = below_.map(options, made);
      owner_.note_mappings(failed ? 0 : 1);
    }
    return failed;
  }
  error_code unmap(const platform::mapping& made) override {
    auto failed = owner_.enter(seam_call::unmap);
    if (!failed) {
      failed = below_.unmap(made);
      owner_.note_mappings(failed ? 0 : -1);
    }
    return failed;
  }
  error_code advise(std::byte* data, std::size_t size_bytes, advice what) override {
    static constexpr std::array<seam_call, 5> kinds{
        seam_call::advise_huge_pages, seam_call::advise_no_huge_pages, seam_call::advise_dont_fork,
        seam_call::populate_write, seam_call::dont_need};
    const auto failed = owner_.enter(kinds.at(static_cast<std::size_t>(what)));
    return failed ? failed : below_.advise(data, size_bytes, what);
  }
  error_code bind(std::byte* data, std::size_t size_bytes, platform::memory_policy policy,
                  const node_set& nodes) override {
    const auto failed = owner_.enter(seam_call::bind);
    return failed ? failed : below_.bind(data, size_bytes, policy, nodes);
  }
  error_code touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) override {
    const auto failed = owner_.enter(seam_call::touch);
    return failed ? failed : below_.touch(data, size_bytes, step_bytes);
  }
  error_code lock_on_fault(std::byte* data, std::size_t size_bytes) override {
    const auto failed = owner_.enter(seam_call::lock_on_fault);
    return failed ? failed : below_.lock_on_fault(data, size_bytes);
  }
  [[nodiscard]] std::uint64_t lock_limit_bytes() const noexcept override {
    return below_.lock_limit_bytes();
  }
  error_code query_nodes(std::span<void* const> addresses, std::span<int> nodes) const override {
    const auto failed = owner_.enter(seam_call::query_nodes);
    return failed ? failed : below_.query_nodes(addresses, nodes);
  }
  error_code query_node(const std::byte* address, int& node) const override {
    const auto failed = owner_.enter(seam_call::query_node);
    return failed ? failed : below_.query_node(address, node);
  }
  error_code scan_huge_bytes(const std::byte* data, std::size_t size_bytes,
                             std::size_t& huge_bytes) const override {
    const auto failed = owner_.enter(seam_call::scan_huge_bytes);
    return failed ? failed : below_.scan_huge_bytes(data, size_bytes, huge_bytes);
  }
  error_code read_huge_bytes(const std::byte* data, std::size_t size_bytes,
                             std::size_t& huge_bytes) const override {
    const auto failed = owner_.enter(seam_call::read_huge_bytes);
    return failed ? failed : below_.read_huge_bytes(data, size_bytes, huge_bytes);
  }

 private:
  fault_injector& owner_;
  platform::memory& below_;
};

class fault_injector::decorated_registrar final : public platform::registrar {
 public:
  decorated_registrar(fault_injector& owner, platform::registrar& below)
      : owner_(owner), below_(below) {}
  platform::registrar_status probe() noexcept override {
    if (const auto failed = owner_.enter(seam_call::probe)) {
      return {platform::registrar_route::none, 0, failed, "the probe was made to fail"};
    }
    return below_.probe();
  }
  error_code pci_address(int device_ordinal, std::string& out) noexcept override {
    const auto failed = owner_.enter(seam_call::pci_address);
    return failed ? failed : below_.pci_address(device_ordinal, out);
  }
  error_code host_node(int device_ordinal, int& out) noexcept override {
    const auto failed = owner_.enter(seam_call::host_node);
    return failed ? failed : below_.host_node(device_ordinal, out);
  }
  error_code active_devices(std::vector<int>& out) noexcept override {
    const auto failed = owner_.enter(seam_call::active_devices);
    return failed ? failed : below_.active_devices(out);
  }
  error_code register_range(int device_ordinal, void* address, std::size_t size_bytes,
                            void** device_pointer) noexcept override {
    const auto failed = owner_.enter(seam_call::register_range);
    return failed ? failed
                  : below_.register_range(device_ordinal, address, size_bytes, device_pointer);
  }
  platform::unregister_result unregister_range(int device_ordinal,
                                               void* address) noexcept override {
    if (const auto failed = owner_.enter(seam_call::unregister_range)) {
      return {platform::unregister_outcome::failed, failed};
    }
    return below_.unregister_range(device_ordinal, address);
  }

 private:
  fault_injector& owner_;
  platform::registrar& below_;
};

fault_injector::fault_injector(platform::platform& below)
    : files_(std::make_unique<decorated_files>(*this, below.files)),
      threads_(std::make_unique<decorated_threads>(*this, below.threads)),
      memory_(std::make_unique<decorated_memory>(*this, below.memory)),
      registrar_(std::make_unique<decorated_registrar>(*this, below.registrar)),
      platform_(new platform::platform{*files_, *threads_, *memory_, *registrar_}) {}

fault_injector::~fault_injector() = default;

platform::platform& fault_injector::platform() noexcept {
  return *platform_;
}

void fault_injector::fail_nth(std::size_t nth, int error_number) {
  const std::lock_guard lock(mutex_);
  plan_ = plan{std::nullopt, nth, error_number};
  fired_.reset();
}

void fault_injector::fail_nth_of(seam_call kind, std::size_t nth, int error_number) {
  const std::lock_guard lock(mutex_);
  plan_ = plan{kind, nth, error_number};
  fired_.reset();
}

void fault_injector::fail_all(seam_call kind, int error_number) {
  const std::lock_guard lock(mutex_);
  always_[kind] = error_number;
}

void fault_injector::reset() {
  const std::lock_guard lock(mutex_);
  plan_.reset();
  always_.clear();
  fired_.reset();
  trace_.clear();
}

std::optional<seam_call> fault_injector::fired() const {
  const std::lock_guard lock(mutex_);
  return fired_;
}

std::size_t fault_injector::count() const {
  const std::lock_guard lock(mutex_);
  return trace_.size();
}

std::size_t fault_injector::count(seam_call kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count(trace_.begin(), trace_.end(), kind));
}

std::vector<seam_call> fault_injector::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

std::size_t fault_injector::mappings() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(mappings_);
}

void fault_injector::note_mappings(std::ptrdiff_t change) {
  const std::lock_guard lock(mutex_);
  mappings_ += change;
}

error_code fault_injector::enter(seam_call kind) {
  const std::lock_guard lock(mutex_);
  trace_.push_back(kind);
  if (const auto always = always_.find(kind); always != always_.end()) {
    return base::system_error(always->second);
  }
  if (plan_ && (!plan_->kind || plan_->kind == kind) && --plan_->left == 0) {
    const int error_number = plan_->error_number;
    plan_.reset();
    fired_ = kind;
    return base::system_error(error_number);
  }
  return {};
}

}  // namespace numapool::test
