// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the two fake libraries share: devices, contexts, registrations, events, and the rules of
// failing and waiting. fake_cuda_control.h tells the rules. Threads: everything but entering a call
// is done while a scoped_call is alive, which holds the one lock.

#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake_cuda {

enum status : int {
  success = 0,
  invalid_value = 1,
  not_initialized = 3,
  gone = 4,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  invalid_handle = 400,
  not_ready = 600,
  context_is_destroyed = 709,
  already_registered = 712,
  not_registered = 713,
};

struct device;

struct context {
  device* owner;
};

struct device {
  std::string pci_address;
  int host_node = -1;
  int ordinal = 0;
  context primary{this};
  unsigned long references = 0;  // the primary context exists while this is not zero
  unsigned long made = 0;
  bool held_by_runtime = false;  // the runtime's one reference, kept for good
};

struct range {
  std::uintptr_t address;
  std::size_t size_bytes;
  std::uintptr_t end;
  unsigned int flags;
  device* owner;
  std::size_t pages_not_resident;
};

struct event {
  bool is_complete = true;  // an event that was never recorded is complete
};

struct failure {
  std::string name;    // empty: any function that can fail
  bool each;           // strikes at each call
  unsigned long left;  // else: calls until it strikes, once
  int code;
};

struct state {
  std::mutex driver_lock;  // held for whole calls when under_one_lock; taken before `mutex`
  std::mutex mutex;        // guards everything below
  std::condition_variable changed;

  std::vector<std::unique_ptr<device>> devices;
  std::map<std::uintptr_t, range> ranges;                 // by first page
  std::map<void*, std::vector<std::byte>> device_memory;  // stands in host memory
  std::map<std::string, unsigned long> counts;
  unsigned long fallible_calls = 0;
  std::vector<failure> failures;
  int runtime_version = 13000;
  int driver_version = 13000;
  std::size_t limit_bytes = 0;
  int limit_code = invalid_value;
  std::uint64_t ns_per_call = 0;
  std::uint64_t ps_per_byte = 0;
  bool under_one_lock = false;
  std::string held_name;
  unsigned long held_calls = 0;
  std::uint64_t device_pointer_offset = 0;
  bool events_are_late = false;
  std::map<void*, std::unique_ptr<event>> events;
  bool initialized = false;
  pid_t initialized_by = 0;
  bool is_gone = false;
  std::string report_path;
  unsigned long generation =
      1;  // grows with each reset; what threads keep from before counts no more

  bool lacks_driver() const { return driver_version / 1000 < runtime_version / 1000; }
};

// Made on first use, with the environment read; never destroyed.
state& the_state();
void read_environment(state& shared);  // with the lock held, or before anybody shares it
void reset(state& shared);             // with the lock held

struct thread_state {
  unsigned long generation = 0;
  int last_error = success;
  int runtime_device = 0;
  std::vector<context*> contexts;
};
thread_state& this_thread(state& shared);  // with the lock held

enum class api { runtime, driver };

// One call of a function that can fail: counts it, waits as told, and then holds the lock for its
// scope.
class scoped_call {
 public:
  scoped_call(api which, const char* name, std::size_t size_bytes = 0);
  int refused() const { return refused_; }  // not success: answer this and do nothing
  int finish(int answer);  // what the function returns; a runtime's error becomes the thread's last
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  int decide(const char* name);
  void wait_while_held(const char* name);

  state& shared_;
  api which_;
  int refused_ = success;
  std::unique_lock<std::mutex> driver_lock_;
  std::unique_lock<std::mutex> lock_;
};

// ---- Everything below is for the scope of a call.
int initialize(state& shared);
device* find_device(state& shared, int ordinal);
std::string printed_address(const device& which);  // upper case, as the libraries print it

context* current_context(const thread_state& thread);
int runtime_device(const thread_state& thread);
context* make_runtime_context(
    state& shared,
    thread_state& thread);  // the current one; else the current device's primary
int set_runtime_device(state& shared, thread_state& thread, int ordinal);
void retain(device& which);
int release(state& shared, device& which);
int reset_runtime_device(state& shared, thread_state& thread);

int register_range(state& shared, const context* current, void* address, std::size_t size_bytes,
                   unsigned int flags);
int unregister_range(state& shared, void* address);
int device_pointer(const state& shared, void* address, std::uint64_t& pointer);
int attribute(const device& which, int number, int& value);

int allocate_device_memory(state& shared, void** made, std::size_t size_bytes);
int free_device_memory(state& shared, void* address);
int copy(const state& shared, void* to, const void* from, std::size_t size_bytes, int kind);

int make_event(state& shared, void** made);
int record_event(state& shared, void* recorded);
int query_event(state& shared, void* asked);
int synchronize_event(scoped_call& call, state& shared, void* awaited);
int destroy_event(state& shared, void* destroyed);

const char* error_name(int code);

}  // namespace fake_cuda
