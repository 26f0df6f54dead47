// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_registrar.hpp"

#include <signal.h>

#include <array>
#include <bit>
#include <cctype>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include "platform/cuda_error.hpp"

namespace numapool::platform {
namespace {

using boost::system::error_code;

error_code no_cuda() noexcept {
  return make_error_code(boost::system::errc::not_supported);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string found_text(const std::string& what, int driver_version, int device_count) {
  return what + ", driver " + version_text(driver_version) + ", " + std::to_string(device_count) +
         (device_count == 1 ? " device" : " devices");
}

// Both libraries print the address in upper case; sysfs names its folders in lower case.
std::string sysfs_spelling(const char* text) {
  std::string address{text};
  for (char& letter : address) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return address;
}

constexpr int pci_text_size = 32;  // "00000000:00:00.0" and room: a domain may have eight digits

// ---- Through the runtime
//
// The runtime keeps two things for each thread that are the caller's and not ours: the current
// device and the last error. Neither can be put back. Setting a device makes a context on it, so
// "restoring" device 0 on a thread that never used it costs a context there; and a failing call
// replaces the error that was pending. So a call that would touch either one is made on a
// short-lived thread of its own: microseconds, against the milliseconds that pinning takes.

// False when no thread could be made. Signals of the process are not for that thread. It inherits
// the caller's CPUs and memory policy.
template <class Work>
bool run_on_own_thread(Work& work) noexcept {
  sigset_t all;
  sigset_t previous;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::thread thread;
  try {
    thread = std::thread{std::ref(work)};
  } catch (const std::exception&) {
    // Out of threads or memory: reported by the result.
  }
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!thread.joinable()) {
    return false;
  }
  thread.join();
  return true;
}

template <class Work>
error_code run_elsewhere(Work& work) noexcept {
  cuda_status status = cuda_success;
  auto job = [&]() noexcept {
    status = work();
  };
  if (!run_on_own_thread(job)) {
    return make_error_code(boost::system::errc::resource_unavailable_try_again);
  }
  return status == cuda_success ? error_code{} : runtime_error(status);
}

// Only where nothing was pending before: then what is pending afterwards is ours to consume.
template <class Work>
error_code run_here(const runtime_api& cuda, Work& work) noexcept {
  const cuda_status status = work();
  cuda.get_last_error();
  return status == cuda_success ? error_code{} : runtime_error(status);
}

// For questions that need no current device.
template <class Work>
error_code ask(const runtime_api& cuda, Work work) noexcept {
  return cuda.peek_at_last_error() == cuda_success ? run_here(cuda, work) : run_elsewhere(work);
}

template <class Work>
error_code with_device(const runtime_api& cuda, int device, Work work) noexcept {
  if (cuda.peek_at_last_error() == cuda_success) {
    int current = -1;
    if (cuda.get_device(&current) != cuda_success) {
      cuda.get_last_error();
    } else if (current == device) {
      // Without set_device, which could replace a context that the caller has made current on this
      // device.
      return run_here(cuda, work);
    }
  }
  auto set_and_work = [&]() noexcept {
    const cuda_status status = cuda.set_device(device);
    return status == cuda_success ? work() : status;
  };
  return run_elsewhere(set_and_work);
}

cuda_status register_through(const runtime_api& cuda, void* address, std::size_t size_bytes,
                             void** device_pointer) noexcept {
  cuda_status status =
      cuda.host_register(address, size_bytes, cuda_register_portable | cuda_register_mapped);
  if (status != cuda_success) {
    return status;
  }
  void* pointer = nullptr;
  status = cuda.host_get_device_pointer(&pointer, address, 0);
  if (status != cuda_success) {
    if (cuda.host_unregister(address) == cuda_success) {
      return status;
    }
    pointer = nullptr;  // registrar.hpp: the one exception
  }
  *device_pointer = pointer;
  return cuda_success;
}

// ---- Through the driver alone
//
// The driver keeps a stack of contexts for each thread and no pending error: pushing the device's
// primary context and popping it leaves the thread as it was. Each registration holds one reference
// on that context, which the driver counts, so the context lives as long as registrations on it do.

class scoped_primary_context {
 public:
  scoped_primary_context(const driver_api& cuda, int ordinal) noexcept : cuda_{cuda} {
    status_ = cuda_.device_get(&device_, ordinal);
    if (status_ != cuda_success) {
      return;
    }
    driver_context context = nullptr;
    status_ = cuda_.primary_context_retain(&context, device_);
    if (status_ != cuda_success) {
      return;
    }
    retained_ = true;
    status_ = cuda_.context_push(context);
    pushed_ = status_ == cuda_success;
  }
  scoped_primary_context(const scoped_primary_context&) = delete;
  scoped_primary_context& operator=(const scoped_primary_context&) = delete;
  ~scoped_primary_context() {
    driver_context popped = nullptr;
    if (pushed_) {
      cuda_.context_pop(&popped);
    }
    if (retained_) {
      cuda_.primary_context_release(device_);
    }
  }

  driver_status status() const noexcept { return status_; }
  // This scope's reference becomes a registration's.
  void leave_reference() noexcept { retained_ = false; }
  // Gives back the reference that a registration was left with; this scope still has its own.
  void give_back_reference() noexcept { cuda_.primary_context_release(device_); }

 private:
  const driver_api& cuda_;
  driver_device device_ = 0;
  driver_status status_ = cuda_success;
  bool retained_ = false;
  bool pushed_ = false;
};

driver_status register_through(const driver_api& cuda, int ordinal, void* address,
                               std::size_t size_bytes, void** device_pointer) noexcept {
  scoped_primary_context context{cuda, ordinal};
  if (context.status() != cuda_success) {
    return context.status();
  }
  driver_status status =
      cuda.host_register(address, size_bytes, cuda_register_portable | cuda_register_mapped);
  if (status != cuda_success) {
    return status;
  }
  driver_address pointer = 0;
  status = cuda.host_get_device_pointer(&pointer, address, 0);
  if (status != cuda_success) {
    if (cuda.host_unregister(address) == cuda_success) {
      return status;
    }
    pointer = 0;  // registrar.hpp: the one exception
  }
  context.leave_reference();
  *device_pointer = std::bit_cast<void*>(pointer);
  return cuda_success;
}

driver_status unregister_through(const driver_api& cuda, int ordinal, void* address) noexcept {
  scoped_primary_context context{cuda, ordinal};
  if (context.status() != cuda_success) {
    return context.status();
  }
  const driver_status status = cuda.host_unregister(address);
  if (status == cuda_success) {
    context.give_back_reference();
  }
  return status;
}

driver_status find_active_devices(const driver_api& cuda, std::vector<int>& active) {
  int count = 0;
  driver_status status =
      cuda.init(0);  // by its runtime the driver is initialised already; then this does nothing
  if (status == cuda_success) {
    status = cuda.device_get_count(&count);
  }
  for (int ordinal = 0; status == cuda_success && ordinal < count; ++ordinal) {
    driver_device device = 0;
    unsigned int flags = 0;
    int is_active = 0;
    status = cuda.device_get(&device, ordinal);
    if (status == cuda_success) {
      status = cuda.primary_context_get_state(device, &flags, &is_active);
    }
    if (status == cuda_success && is_active != 0) {
      active.push_back(ordinal);
    }
  }
  return status;
}

error_code from_driver(driver_status status) noexcept {
  return status == cuda_success ? error_code{} : driver_error(status);
}

unregister_result result_of(error_code error) noexcept {
  if (!error.failed()) {
    return {unregister_outcome::unregistered, {}};
  }
  const bool said_by_cuda =
      error.category() == cuda_runtime_category() || error.category() == cuda_driver_category();
  if (said_by_cuda && error.value() == cuda_error_unloading) {
    return {unregister_outcome::driver_gone, error};
  }
  return {unregister_outcome::failed, error};
}

}  // namespace

// ---- Choosing

registrar_status cuda_registrar::probe() noexcept {
  try {
    const base::lock_guard lock{mutex_};
    return probe_libraries();
  } catch (const std::exception&) {
    registrar_status status;
    status.error = make_error_code(boost::system::errc::not_enough_memory);
    return status;
  }
}

registrar_status cuda_registrar::probe_libraries() {
  registrar_status status;
  const bool is_chosen = runtime_.load(std::memory_order_relaxed) != nullptr ||
                         driver_.load(std::memory_order_relaxed) != nullptr;
  if (!is_chosen && cuda_libraries::has_exit_begun()) {
    status.error = no_cuda();
    status.reason = "the process is ending, and CUDA was not in use before";
    return status;
  }
  const bool driver_chosen = driver_.load(std::memory_order_relaxed) != nullptr;
  if (!driver_chosen) {
    const runtime_library* runtime = libraries_.runtime(status.reason);
    status.error = no_cuda();
    if (runtime != nullptr) {
      status = probe_runtime(*runtime);
    }
    // A runtime without a fitting driver leaves the driver's own call; every other answer is the
    // driver's last word already.
    const bool driver_may_do = runtime == nullptr
                                   ? libraries_.search().override_name.empty()
                                   : status.error == runtime_error(cuda_error_insufficient_driver);
    if (runtime == nullptr) {
      status.reason = "no CUDA runtime (" + status.reason + ")";
    }
    if (!driver_may_do || runtime_.load(std::memory_order_relaxed) != nullptr) {
      return status;
    }
  }
  std::string missing;
  const driver_library* driver = libraries_.driver(missing);
  if (driver == nullptr) {
    status.reason += "; no CUDA driver (" + missing + ")";
    return status;
  }
  return probe_driver(*driver);
}

registrar_status cuda_registrar::probe_runtime(const runtime_library& library) {
  const runtime_api& cuda = library.call;
  registrar_status status;
  int driver_version = 0;
  status.error = ask(cuda, [&]() noexcept {
    cuda.driver_get_version(&driver_version);
    return cuda.get_device_count(&status.device_count);
  });
  const std::string what =
      "CUDA runtime " + version_text(library.version) + " (" + library.path + ")";
  if (!status.error.failed() && status.device_count == 0) {
    status.error = runtime_error(cuda_error_no_device);
  }
  if (status.error.failed()) {
    status.device_count = 0;
    status.reason = what + " cannot be used: " + status.error.message();
    return status;
  }
  status.route = registrar_route::runtime;
  status.reason = found_text(what, driver_version, status.device_count);
  runtime_.store(&cuda, std::memory_order_release);
  return status;
}

registrar_status cuda_registrar::probe_driver(const driver_library& library) {
  const driver_api& cuda = library.call;
  registrar_status status;
  int driver_version = 0;
  cuda.driver_get_version(&driver_version);
  driver_status answer = cuda.init(0);
  if (answer == cuda_success) {
    answer = cuda.device_get_count(&status.device_count);
  }
  if (answer == cuda_success && status.device_count == 0) {
    answer = cuda_error_no_device;
  }
  if (answer != cuda_success) {
    status.device_count = 0;
    status.error = driver_error(answer);
    status.reason = "CUDA driver (" + library.path + ") cannot be used: " + status.error.message();
    return status;
  }
  status.route = registrar_route::driver;
  status.reason =
      found_text("no usable CUDA runtime; through the driver alone (" + library.path + ")",
                 driver_version, status.device_count);
  driver_.store(&cuda, std::memory_order_release);
  return status;
}

cuda_registrar::chosen cuda_registrar::choose() noexcept {
  const auto current = [this] {
    return chosen{runtime_.load(std::memory_order_acquire), driver_.load(std::memory_order_acquire),
                  no_cuda()};
  };
  chosen route = current();
  if (route.runtime != nullptr || route.driver != nullptr) {
    return route;
  }
  const registrar_status status = probe();
  route = current();
  route.error = status.error;
  return route;
}

// ---- The contract

error_code cuda_registrar::pci_address(int device_ordinal, std::string& out) noexcept {
  const chosen route = choose();
  std::array<char, pci_text_size> text{};
  error_code error = route.error;
  if (route.runtime != nullptr) {
    error = ask(*route.runtime, [&]() noexcept {
      return route.runtime->device_get_pci_bus_id(text.data(), pci_text_size, device_ordinal);
    });
  } else if (route.driver != nullptr) {
    driver_device device = 0;
    driver_status status = route.driver->device_get(&device, device_ordinal);
    if (status == cuda_success) {
      status = route.driver->device_get_pci_bus_id(text.data(), pci_text_size, device);
    }
    error = from_driver(status);
  }
  if (error.failed()) {
    return error;
  }
  try {
    out = sysfs_spelling(text.data());
  } catch (const std::exception&) {
    return make_error_code(boost::system::errc::not_enough_memory);
  }
  return {};
}

error_code cuda_registrar::host_node(int device_ordinal, int& out) noexcept {
  const chosen route = choose();
  error_code error = route.error;
  int node = -1;
  if (route.runtime != nullptr) {
    error = ask(*route.runtime, [&]() noexcept {
      return route.runtime->device_get_attribute(&node, cuda_attribute_host_numa_id,
                                                 device_ordinal);
    });
  } else if (route.driver != nullptr) {
    driver_device device = 0;
    driver_status status = route.driver->device_get(&device, device_ordinal);
    if (status == cuda_success) {
      status = route.driver->device_get_attribute(&node, cuda_attribute_host_numa_id, device);
    }
    error = from_driver(status);
  }
  if (!error.failed()) {
    out = node;
  }
  return error;
}

error_code cuda_registrar::active_devices(std::vector<int>& out) noexcept {
  const chosen route = choose();
  if (route.runtime == nullptr && route.driver == nullptr) {
    return route.error;
  }
  try {
    // Only the driver can say. Beside a working runtime it is loaded already: this finds the same
    // copy.
    std::string missing;
    const driver_library* library = libraries_.driver(missing);
    if (library == nullptr) {
      return no_cuda();
    }
    std::vector<int> active;
    const driver_status status = find_active_devices(library->call, active);
    if (status == cuda_success) {
      out.swap(active);
    }
    return from_driver(status);
  } catch (const std::exception&) {
    return make_error_code(boost::system::errc::not_enough_memory);
  }
}

error_code cuda_registrar::register_range(int device_ordinal, void* address, std::size_t size_bytes,
                                          void** device_pointer) noexcept {
  const chosen route = choose();
  if (route.runtime != nullptr) {
    return with_device(*route.runtime, device_ordinal, [&]() noexcept {
      return register_through(*route.runtime, address, size_bytes, device_pointer);
    });
  }
  if (route.driver == nullptr) {
    return route.error;
  }
  return from_driver(
      register_through(*route.driver, device_ordinal, address, size_bytes, device_pointer));
}

unregister_result cuda_registrar::unregister_range(int device_ordinal, void* address) noexcept {
  // Without a route nothing was registered through us, and CUDA is not initialised to hear that.
  if (const runtime_api* cuda = runtime_.load(std::memory_order_acquire); cuda != nullptr) {
    return result_of(with_device(*cuda, device_ordinal,
                                 [&]() noexcept { return cuda->host_unregister(address); }));
  }
  if (const driver_api* cuda = driver_.load(std::memory_order_acquire); cuda != nullptr) {
    return result_of(from_driver(unregister_through(*cuda, device_ordinal, address)));
  }
  return {unregister_outcome::failed, no_cuda()};
}

registrar& process_registrar() noexcept {
  // Never destroyed: static destructors elsewhere may still release handles. A process without
  // memory for it may end. NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  static registrar& instance = *new cuda_registrar{cuda_search::from_environment()};
  return instance;
}

}  // namespace numapool::platform
