// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seam to whoever pins a range for devices. Mechanism only: no retry, no splitting, no logging,
// no policy.
//
// Common to all functions: they are safe to call from any thread at any time, also during and after
// static destruction; they neither throw nor print; `device_ordinal` is process-local, as
// CUDA_VISIBLE_DEVICES leaves it; addresses are page aligned, sizes positive multiples of the page.
// The calling thread comes back as it was: with the same current device and context, and with the
// same pending CUDA error or none. Outputs are written on success alone. Errors are in
// cuda_runtime_category() or cuda_driver_category() where CUDA said it; not_supported (generic)
// where there is no CUDA to ask; resource_unavailable_try_again where a thread was needed to keep
// the caller's as it was, and the system refused one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/system/error_code.hpp>

namespace numapool::platform {

enum class registrar_route : std::uint8_t {
  none,     // ranges cannot be registered
  runtime,  // cudaHostRegister of libcudart
  driver,   // cuMemHostRegister of libcuda, where there is no usable runtime
};

struct registrar_status {
  registrar_route route = registrar_route::none;
  int device_count = 0;
  boost::system::error_code error;  // why the route is none; unset otherwise
  std::string reason;  // one sentence for people: what was found and where, or what is missing
};

enum class unregister_outcome : std::uint8_t {
  unregistered,  // the driver no longer knows the range
  driver_gone,  // CUDA has shut down in this process: nothing is registered any more; the range may
                // be unmapped
  failed,       // `error` says why; take the range as still registered and do not unmap it
};

struct unregister_result {
  unregister_outcome outcome = unregister_outcome::failed;
  boost::system::error_code error;
};

// One device as CUDA shows it to this process.
struct initialized_device {
  std::string pci_address;  // as sysfs spells it; a MIG device has its GPU's
  int host_node = -1;  // that the driver names as closest; -1: none, or it is older than CUDA 12.2
};

class registrar {
 public:
  registrar() = default;
  registrar(const registrar&) = delete;
  registrar& operator=(const registrar&) = delete;
  virtual ~registrar() = default;

  // Finds out whether ranges can be registered, and how. Loads the libraries and initialises the
  // driver (children forked later cannot use CUDA); makes no context. The first route that works is
  // kept for good, since a range must be unregistered the way it was registered; a failure is not
  // kept. Blocks: the first time, up to seconds.
  virtual registrar_status probe() noexcept = 0;

  // The device's PCI address as sysfs spells it, "0000:3b:00.0". Makes no context.
  virtual boost::system::error_code pci_address(int device_ordinal, std::string& out) noexcept = 0;

  // The node that the driver names as closest to the device; -1 where it knows none. An error
  // before CUDA 12.2, where the question does not exist. Makes no context.
  virtual boost::system::error_code host_node(int device_ordinal, int& out) noexcept = 0;

  // The devices on which this process already has a primary context: a caller that needs just any
  // device can take one of them and cost no new context. An error where nobody can say. Makes no
  // context.
  virtual boost::system::error_code active_devices(std::vector<int>& out) noexcept = 0;

  // The devices that this process sees, in ordinal order, where its driver is initialised already,
  // by whomever. Initialises nothing and loads nothing: only a driver library that is in the
  // process is asked. CUDA_ERROR_NOT_INITIALIZED before cuInit and in a child forked after it;
  // not_supported where there is no driver in the process, or nobody to ask.
  virtual boost::system::error_code initialized_devices(
      std::vector<initialized_device>& out) noexcept;

  // Registers the range, portable and mapped, with the device current; makes a context on that
  // device if it has none, and on no other. `*device_pointer` is the range as the device sees it.
  // On error nothing is registered. One exception to a rule, rather than a registration that nobody
  // undoes: if the device pointer cannot be had and the range then cannot be unregistered, the call
  // succeeds with `*device_pointer` null. Blocks: the driver pins page by page, under locks that
  // other CUDA calls need. Sizes that drivers refuse: 512 GiB since r580, more than 2 GiB on
  // kernels 6.11 to 6.13.
  virtual boost::system::error_code register_range(int device_ordinal, void* address,
                                                   std::size_t size_bytes,
                                                   void** device_pointer) noexcept = 0;

  // Undoes one register_range with the same device and address. An address that is not registered
  // is a failure (713).
  virtual unregister_result unregister_range(int device_ordinal, void* address) noexcept = 0;
};

// For requests that want no CUDA: the route is none, everything else is not_supported.
class null_registrar final : public registrar {
 public:
  registrar_status probe() noexcept override;
  boost::system::error_code pci_address(int device_ordinal, std::string& out) noexcept override;
  boost::system::error_code host_node(int device_ordinal, int& out) noexcept override;
  boost::system::error_code active_devices(std::vector<int>& out) noexcept override;
  boost::system::error_code register_range(int device_ordinal, void* address,
                                           std::size_t size_bytes,
                                           void** device_pointer) noexcept override;
  unregister_result unregister_range(int device_ordinal, void* address) noexcept override;
};

// The one that asks CUDA, for the whole process; made on first use, never destroyed.
[[nodiscard]] registrar& process_registrar() noexcept;

}  // namespace numapool::platform
