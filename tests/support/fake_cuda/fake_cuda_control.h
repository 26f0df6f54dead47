// SPDX-License-Identifier: Apache-2.0
#pragma once

// The strings to the fake CUDA libraries: what devices there are, what fails, how long things take,
// and what was done. One state stands behind the fake libcudart and the fake libcuda, so both see
// the same devices, contexts and registrations. All functions are safe to call from any thread.
//
// The rules that the fakes keep, as public reports and the CUDA manuals tell them:
//   * registering covers the pages that the range touches; a page registered twice is 712; a size
//     of zero, an unknown flag or a
//     page that is not mapped is 1; unregistering takes the address that was registered, else 713
//   * a failing runtime call leaves its error pending on its thread until it is taken; a driver
//     call leaves nothing
//   * a context is made by cudaSetDevice (runtime 12 and later), by the first call that needs one,
//     and by retaining the
//     primary context; not by counting devices or asking their address. The driver counts
//     references; the last one destroys it, and with it go its registrations. cudaDeviceReset
//     destroys the current device's, whoever holds references
//   * a copy whose host bytes lie in a registration in part, or in two of them, is 1
//   * a driver that is missing or older than the runtime makes every runtime call answer 35, on
//     every thread, for ever
//   * no device is 100; a child forked after initialisation hears 3; after the driver's exit
//     handler everybody hears 4
//
// From another process, by environment (read when the library is loaded, and at fake_cuda_reset):
//   NUMAPOOL_FAKE_CUDA_DEVICES=0000:3b:00.0@1,0000:86:00.0@0   PCI address @ node of its host
//   memory; empty: no device
//   NUMAPOOL_FAKE_CUDA_FAIL=cudaHostRegister:1:712,*:9:2       name or * : which call, 0 for each :
//   code
//   NUMAPOOL_FAKE_CUDA_LIMIT=2147483648:1                      bytes that one registration may have
//   : code beyond
//   NUMAPOOL_FAKE_CUDA_RUNTIME_VERSION=13000   NUMAPOOL_FAKE_CUDA_DRIVER_VERSION=13000 (0: no
//   driver)
//   NUMAPOOL_FAKE_CUDA_DELAY=1000:250:1                        ns per call : ps per byte registered
//   : under one lock
//   NUMAPOOL_FAKE_CUDA_REPORT=path                             written at exit: counts, contexts,
//   ranges left registered

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Everything as after loading: two devices on nodes 0 and 1 unless the environment says otherwise,
// versions 13.0, nothing registered, no contexts, no failures, no delays, and on every thread no
// pending error and device 0.
void fake_cuda_reset(void);

struct fake_cuda_device {
  const char*
      pci_address;  // "0000:3b:00.0"; the fakes print it in upper case, as the real libraries do
  int host_node;    // -1: unknown
};
void fake_cuda_set_devices(const struct fake_cuda_device* devices, size_t count);
// As 13000 for 13.0. A driver version of 0 means that there is no driver.
void fake_cuda_set_versions(int runtime_version, int driver_version);

// Lets the nth call from now, 1 for the next, answer `code` and do nothing; 0 for each call. A null
// name counts calls of every function except those that cannot fail: taking and peeking at the last
// error, versions and error texts.
void fake_cuda_fail_nth(const char* name, unsigned long nth, int code);
void fake_cuda_clear_failures(void);
// A registration of more bytes than this answers `code`; 0 takes the limit away.
void fake_cuda_set_limit(size_t size_bytes, int code);
// With `under_one_lock`, calls wait for each other while one of them is delayed, as on the real
// driver's global locks.
void fake_cuda_set_delay(uint64_t ns_per_call, uint64_t ps_per_byte, int under_one_lock);
// Calls of this function stop before they do anything, until fake_cuda_release.
void fake_cuda_hold(const char* name);
void fake_cuda_wait_until_held(unsigned long calls);  // blocks until so many calls have stopped
void fake_cuda_release(void);
// A device pointer is the host address plus this.
void fake_cuda_set_device_pointer_offset(uint64_t offset);
// From now on recorded events stay unfinished until fake_cuda_complete_events.
void fake_cuda_set_events_late(int late);
void fake_cuda_complete_events(void);
// The driver has shut down, or has not. By default it does so in an exit handler that
// initialisation installs.
void fake_cuda_set_gone(int gone);

// Calls of one function since the last reset, or of all that can fail where the name is null.
unsigned long fake_cuda_count(const char* name);

struct fake_cuda_range {
  void* address;      // as given
  size_t size_bytes;  // as given
  void* begin;        // the pages covered
  void* end;
  unsigned int flags;
  int device;                 // whose context was current
  size_t pages_not_resident;  // when it was registered: the real driver would have faulted them in,
                              // one by one
};
// Returns how many ranges are registered; fills at most `capacity` of them, ordered by address.
size_t fake_cuda_registered_ranges(struct fake_cuda_range* ranges, size_t capacity);
int fake_cuda_context_active(int device);           // 1 while the device's primary context exists
unsigned long fake_cuda_contexts_made(int device);  // since the last reset
unsigned long fake_cuda_context_references(int device);
int fake_cuda_initialized(void);              // whether any call has initialised the driver
size_t fake_cuda_thread_context_depth(void);  // contexts on the calling thread's stack
int fake_cuda_last_error(void);               // pending on the calling thread; counts as no call

#ifdef __cplusplus
}
#endif
