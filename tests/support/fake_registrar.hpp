// SPDX-License-Identifier: Apache-2.0
#pragma once

// A registrar that is a list, keeping CUDA's rules: no range twice, limits a call, what was registered is unregistered by
// its own address. Threads: safe to share.

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "platform/registrar.hpp"

namespace numapool::test {

class fake_registrar final : public platform::registrar {
 public:
  struct device {
    std::string pci_address;
    bool has_context = false;
  };
  struct range {
    int device = -1;
    std::byte* address = nullptr;
    std::size_t size_bytes = 0;
  };
  /// Asked before a range is taken: whether it is all mapped and resident.
  using range_check = std::function<void(const range&)>;

  /// Where the ranges appear to devices: host address plus this.
  static constexpr std::size_t device_pointer_offset = 1ULL << 45U;

  void set_devices(std::vector<device> devices);  ///< and the runtime route; none by default
  void set_context(int device_ordinal, bool active);
  void set_route(platform::registrar_route route);
  void set_unavailable(std::string reason);       ///< there is no CUDA
  /// A registration of more answers 1 (cudaErrorInvalidValue); 0: no limit.
  void set_limit(std::size_t size_bytes);
  /// Answers this code to the nth registration from now (1: the next), once.
  void fail_registration(std::size_t nth, int code);
  void fail_unregistrations(bool fail);  ///< all of them, from now on
  void set_driver_gone(bool gone);
  void set_range_check(range_check check);

  [[nodiscard]] std::vector<range> registered() const;
  [[nodiscard]] std::vector<range> history() const;       ///< every registration that was accepted
  [[nodiscard]] std::vector<std::byte*> unregistered() const;  ///< in the order of the calls that were obeyed
  [[nodiscard]] bool overlaps(const std::byte* data, std::size_t size_bytes) const;
  /// Drops the books: what a test left registered on purpose.
  void forget();

  platform::registrar_status probe() noexcept override;
  boost::system::error_code pci_address(int device_ordinal, std::string& out) noexcept override;
  boost::system::error_code host_node(int device_ordinal, int& out) noexcept override;
  boost::system::error_code active_devices(std::vector<int>& out) noexcept override;
  boost::system::error_code register_range(int device_ordinal, void* address, std::size_t size_bytes,
                                           void** device_pointer) noexcept override;
  platform::unregister_result unregister_range(int device_ordinal, void* address) noexcept override;

 private:
  [[nodiscard]] boost::system::error_code check_device(int device_ordinal) const;
  [[nodiscard]] bool overlaps_locked(const std::byte* data, std::size_t size_bytes) const;

  mutable std::mutex mutex_;
  platform::registrar_route route_ = platform::registrar_route::none;
  std::string reason_ = "no CUDA library was found";
  std::vector<device> devices_;
  std::size_t limit_bytes_ = 0;
  std::size_t fail_in_ = 0;
  int fail_code_ = 0;
  bool fails_to_unregister_ = false;
  bool driver_gone_ = false;
  range_check check_;
  std::vector<range> ranges_;
  std::vector<range> history_;
  std::vector<std::byte*> unregistered_;
};

}  // namespace numapool::test
