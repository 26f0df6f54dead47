// SPDX-License-Identifier: Apache-2.0
#include "support/fake_registrar.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "platform/cuda_error.hpp"

namespace numapool::test {
namespace {

using platform::runtime_error;

boost::system::error_code not_supported() { return make_error_code(boost::system::errc::not_supported); }

// The numbers of the CUDA runtime.
constexpr int invalid_value = 1;
constexpr int invalid_device = 101;
constexpr int already_registered = 712;
constexpr int not_registered = 713;
constexpr int unknown_error = 999;

}  // namespace

void fake_registrar::set_devices(std::vector<device> devices) {
  const std::lock_guard lock(mutex_);
  devices_ = std::move(devices);
  route_ = platform::registrar_route::runtime;
}

void fake_registrar::set_context(int device_ordinal, bool active) {
  const std::lock_guard lock(mutex_);
  devices_.at(static_cast<std::size_t>(device_ordinal)).has_context = active;
}

void fake_registrar::set_route(platform::registrar_route route) {
  const std::lock_guard lock(mutex_);
  route_ = route;
}

void fake_registrar::set_unavailable(std::string reason) {
  const std::lock_guard lock(mutex_);
  route_ = platform::registrar_route::none;
  reason_ = std::move(reason);
}

void fake_registrar::set_limit(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = size_bytes;
}

void fake_registrar::fail_registration(std::size_t nth, int code) {
  const std::lock_guard lock(mutex_);
  fail_in_ = nth;
  fail_code_ = code;
}

void fake_registrar::fail_unregistrations(bool fail) {
  const std::lock_guard lock(mutex_);
  fails_to_unregister_ = fail;
}

void fake_registrar::set_driver_gone(bool gone) {
  const std::lock_guard lock(mutex_);
  driver_gone_ = gone;
}

void fake_registrar::set_range_check(range_check check) {
  const std::lock_guard lock(mutex_);
  check_ = std::move(check);
}

std::vector<fake_registrar::range> fake_registrar::registered() const {
  const std::lock_guard lock(mutex_);
  return ranges_;
}

std::vector<fake_registrar::range> fake_registrar::history() const {
  const std::lock_guard lock(mutex_);
  return history_;
}

std::vector<std::byte*> fake_registrar::unregistered() const {
  const std::lock_guard lock(mutex_);
  return unregistered_;
}

bool fake_registrar::overlaps(const std::byte* data, std::size_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  return !driver_gone_ && overlaps_locked(data, size_bytes);
}

bool fake_registrar::overlaps_locked(const std::byte* data, std::size_t size_bytes) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const range& known) {
    return known.address < data + size_bytes && data < known.address + known.size_bytes;
  });
}

void fake_registrar::forget() {
  const std::lock_guard lock(mutex_);
  ranges_.clear();
}

platform::registrar_status fake_registrar::probe() noexcept {
  const std::lock_guard lock(mutex_);
  platform::registrar_status status;
  status.route = route_;
  if (route_ == platform::registrar_route::none) {
    status.error = not_supported();
    status.reason = reason_;
  } else {
    status.device_count = static_cast<int>(devices_.size());
    status.reason = "a fake";
  }
  return status;
}

boost::system::error_code fake_registrar::check_device(int device_ordinal) const {
  if (route_ == platform::registrar_route::none) {
    return not_supported();
  }
  const bool is_known = device_ordinal >= 0 && static_cast<std::size_t>(device_ordinal) < devices_.size();
  return is_known ? boost::system::error_code() : runtime_error(invalid_device);
}

boost::system::error_code fake_registrar::pci_address(int device_ordinal, std::string& out) noexcept {
  const std::lock_guard lock(mutex_);
  const auto error = check_device(device_ordinal);
  if (!error) {
    out = devices_[static_cast<std::size_t>(device_ordinal)].pci_address;
  }
  return error;
}

boost::system::error_code fake_registrar::host_node(int device_ordinal, int& out) noexcept {
  const std::lock_guard lock(mutex_);
  const auto error = check_device(device_ordinal);
  if (!error) {
    out = -1;
  }
  return error;
}

boost::system::error_code fake_registrar::active_devices(std::vector<int>& out) noexcept {
  const std::lock_guard lock(mutex_);
  if (route_ == platform::registrar_route::none) {
    return not_supported();
  }
  out.clear();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].has_context) {
      out.push_back(static_cast<int>(i));
    }
  }
  return {};
}

boost::system::error_code fake_registrar::register_range(int device_ordinal, void* address, std::size_t size_bytes,
                                                         void** device_pointer) noexcept {
  constexpr std::size_t page = 4096;
  const range asked{device_ordinal, static_cast<std::byte*>(address), size_bytes};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % page, 0U);
  EXPECT_TRUE(size_bytes > 0 && size_bytes % page == 0) << size_bytes;
  range_check check;
  {
    const std::lock_guard lock(mutex_);
    check = check_;
  }
  if (check) {
    check(asked);  // without the lock: it asks the fake memory, which asks back when it unmaps
  }
  const std::lock_guard lock(mutex_);
  if (const auto error = check_device(device_ordinal)) {
    return error;
  }
  if (fail_in_ > 0 && --fail_in_ == 0) {
    return runtime_error(fail_code_);
  }
  if (limit_bytes_ != 0 && size_bytes > limit_bytes_) {
    return runtime_error(invalid_value);
  }
  if (overlaps_locked(asked.address, size_bytes)) {
    return runtime_error(already_registered);
  }
  ranges_.push_back(asked);
  history_.push_back(asked);
  *device_pointer = asked.address + device_pointer_offset;
  return {};
}

platform::unregister_result fake_registrar::unregister_range(int device_ordinal, void* address) noexcept {
  const std::lock_guard lock(mutex_);
  if (driver_gone_) {
    ranges_.clear();
    return {platform::unregister_outcome::driver_gone, {}};
  }
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const range& known) {
    return known.address == address && known.device == device_ordinal;
  });
  if (found == ranges_.end()) {
    ADD_FAILURE() << "unregistered what was not registered";
    return {platform::unregister_outcome::failed, runtime_error(not_registered)};
  }
  if (fails_to_unregister_) {
    return {platform::unregister_outcome::failed, runtime_error(unknown_error)};
  }
  unregistered_.push_back(found->address);
  ranges_.erase(found);
  return {platform::unregister_outcome::unregistered, {}};
}

}  // namespace numapool::test
