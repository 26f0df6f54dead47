// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_state.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fake_cuda {

state& the_state() {
  static state& instance = *[] {
    auto* made = new state;
    reset(*made);
    return made;
  }();
  return instance;
}

void reset(state& shared) {
  shared.devices.clear();
  shared.ranges.clear();
  shared.device_memory.clear();
  shared.counts.clear();
  shared.fallible_calls = 0;
  shared.failures.clear();
  shared.runtime_version = shared.driver_version = 13000;
  shared.limit_bytes = 0;
  shared.ns_per_call = shared.ps_per_byte = 0;
  shared.under_one_lock = false;
  shared.held_name.clear();
  shared.device_pointer_offset = 0;
  shared.events_are_late = false;
  shared.events.clear();
  shared.initialized = false;
  shared.is_gone = false;
  ++shared.generation;
  read_environment(shared);
  shared.changed.notify_all();
}

thread_state& this_thread(state& shared) {
  // A program's exit handlers run after its first thread's thread_local objects are destroyed, and
  // may call the libraries.
  static thread_state& of_first_thread = *new thread_state;
  thread_local thread_state of_other_thread;
  thread_state& mine = ::gettid() == ::getpid() ? of_first_thread : of_other_thread;
  if (mine.generation != shared.generation) {
    mine = thread_state{};
    mine.generation = shared.generation;
  }
  return mine;
}

// ---- Calls

scoped_call::scoped_call(api which, const char* name, std::size_t size_bytes)
    : shared_{the_state()}, which_{which} {
  lock_ = std::unique_lock{shared_.mutex};
  ++shared_.counts[name];
  ++shared_.fallible_calls;
  wait_while_held(name);
  const auto delay =
      std::chrono::nanoseconds{shared_.ns_per_call + shared_.ps_per_byte * size_bytes / 1000};
  const bool one_at_a_time = shared_.under_one_lock;
  if (one_at_a_time || delay.count() != 0) {
    lock_.unlock();
    if (one_at_a_time) {
      driver_lock_ = std::unique_lock{shared_.driver_lock};
    }
    if (delay.count() != 0) {
      std::this_thread::sleep_for(delay);
    }
    lock_.lock();
  }
  refused_ = decide(name);
}

void scoped_call::wait_while_held(const char* name) {
  if (shared_.held_name != name) {
    return;
  }
  ++shared_.held_calls;
  shared_.changed.notify_all();
  shared_.changed.wait(lock_, [&] { return shared_.held_name != name; });
  --shared_.held_calls;
}

int scoped_call::decide(const char* name) {
  int injected = success;
  for (failure& rule : shared_.failures) {
    if (!rule.name.empty() && rule.name != name) {
      continue;
    }
    const bool strikes = rule.each || --rule.left == 0;
    if (strikes && injected == success) {
      injected = rule.code;
    }
  }
  std::erase_if(shared_.failures, [](const failure& rule) { return !rule.each && rule.left == 0; });
  if (which_ == api::runtime && shared_.lacks_driver()) {
    return insufficient_driver;
  }
  if (shared_.is_gone) {
    return gone;
  }
  if (shared_.initialized && shared_.initialized_by != ::getpid()) {
    return not_initialized;
  }
  if (injected != success) {
    return injected;
  }
  if (which_ == api::runtime) {
    return initialize(shared_);
  }
  return shared_.initialized || std::strcmp(name, "cuInit") == 0 ? success : not_initialized;
}

int scoped_call::finish(int answer) {
  if (answer != success && which_ == api::runtime && !shared_.lacks_driver()) {
    this_thread(shared_).last_error = answer;
  }
  return answer;
}

int initialize(state& shared) {
  if (shared.initialized) {
    return success;
  }
  if (shared.devices.empty()) {
    return no_device;
  }
  shared.initialized = true;
  shared.initialized_by = ::getpid();
  static const int installed = std::atexit([] {
    const std::lock_guard lock{the_state().mutex};
    the_state().is_gone = true;
  });
  return installed == 0 ? success : not_initialized;
}

// ---- Devices and contexts

device* find_device(state& shared, int ordinal) {
  const auto index = static_cast<std::size_t>(ordinal);
  return ordinal >= 0 && index < shared.devices.size() ? shared.devices[index].get() : nullptr;
}

std::string printed_address(const device& which) {
  std::string text = which.pci_address;
  for (char& letter : text) {
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  return text;
}

int attribute(const device& which, int number, int& value) {
  constexpr int can_use_host_pointer = 91;
  constexpr int host_numa_id = 134;
  switch (number) {
    case host_numa_id:
      value = which.host_node;
      return success;
    case can_use_host_pointer:
      value = 1;
      return success;
    default:
      return invalid_value;
  }
}

context* current_context(const thread_state& thread) {
  return thread.contexts.empty() ? nullptr : thread.contexts.back();
}

int runtime_device(const thread_state& thread) {
  const context* current = current_context(thread);
  return current != nullptr ? current->owner->ordinal : thread.runtime_device;
}

void retain(device& which) {
  if (which.references++ == 0) {
    ++which.made;
  }
}

namespace {
void end_context(state& shared, device& which) {
  which.references = 0;
  which.held_by_runtime = false;
  std::erase_if(shared.ranges, [&](const auto& entry) { return entry.second.owner == &which; });
}
}  // namespace

int release(state& shared, device& which) {
  if (which.references == 0) {
    return invalid_context;
  }
  if (which.references == 1) {
    end_context(shared, which);
  } else {
    --which.references;
  }
  return success;
}

namespace {
void hold_for_runtime(device& which) {
  if (which.held_by_runtime) {
    return;
  }
  which.held_by_runtime = true;
  retain(which);
}
}  // namespace

context* make_runtime_context(state& shared, thread_state& thread) {
  if (context* current = current_context(thread); current != nullptr) {
    if (current->owner->references == 0) {
      hold_for_runtime(*current->owner);  // it was reset: the runtime makes it anew
    }
    return current;
  }
  device& which = *find_device(shared, thread.runtime_device);
  hold_for_runtime(which);
  thread.contexts.push_back(&which.primary);
  return &which.primary;
}

int set_runtime_device(state& shared, thread_state& thread, int ordinal) {
  device* which = find_device(shared, ordinal);
  if (which == nullptr) {
    return invalid_device;
  }
  thread.runtime_device = ordinal;
  if (!thread.contexts.empty()) {
    thread.contexts.pop_back();  // what was current is replaced, whoever had pushed it
  }
  constexpr int first_eager_runtime = 12000;
  if (shared.runtime_version >= first_eager_runtime) {
    make_runtime_context(shared, thread);
  }
  return success;
}

int reset_runtime_device(state& shared, thread_state& thread) {
  device& which = *find_device(shared, runtime_device(thread));
  thread.runtime_device = which.ordinal;
  if (!thread.contexts.empty()) {
    thread.contexts.pop_back();
  }
  end_context(shared, which);
  return success;
}

// ---- Registrations

namespace {

std::uintptr_t page_size() {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// False where a page is not mapped. Counts the pages that are mapped and not resident.
bool look_at_pages(std::uintptr_t begin, std::uintptr_t end, std::size_t& not_resident) {
  std::array<unsigned char, 4096> residency{};
  while (begin < end) {
    const std::size_t pages = std::min<std::size_t>((end - begin) / page_size(), residency.size());
    if (::mincore(std::bit_cast<void*>(begin), pages * page_size(), residency.data()) != 0) {
      return false;
    }
    not_resident += static_cast<std::size_t>(
        std::count_if(residency.begin(), residency.begin() + static_cast<std::ptrdiff_t>(pages),
                      [](unsigned char page) { return (page & 1U) == 0; }));
    begin += pages * page_size();
  }
  return true;
}

}  // namespace

int register_range(state& shared, const context* current, void* address, std::size_t size_bytes,
                   unsigned int flags) {
  constexpr unsigned int known_flags = 0xF;  // portable, mapped, I/O memory, read only
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const bool is_range = address != nullptr && size_bytes != 0 && first + size_bytes > first;
  if (!is_range || (flags & ~known_flags) != 0) {
    return invalid_value;
  }
  if (shared.limit_bytes != 0 && size_bytes > shared.limit_bytes) {
    return shared.limit_code;
  }
  const std::uintptr_t begin = first / page_size() * page_size();
  const std::uintptr_t end = (first + size_bytes + page_size() - 1) / page_size() * page_size();
  auto next = shared.ranges.lower_bound(begin);
  if (next != shared.ranges.end() && next->first < end) {
    return already_registered;
  }
  if (next != shared.ranges.begin() && std::prev(next)->second.end > begin) {
    return already_registered;
  }
  std::size_t not_resident = 0;
  if (!look_at_pages(begin, end, not_resident)) {
    return invalid_value;
  }
  shared.ranges.emplace(begin, range{first, size_bytes, end, flags, current->owner, not_resident});
  return success;
}

namespace {
const range* find_range(const state& shared, void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  const auto found = shared.ranges.find(wanted / page_size() * page_size());
  return found != shared.ranges.end() && found->second.address == wanted ? &found->second : nullptr;
}
}  // namespace

int unregister_range(state& shared, void* address) {
  const range* found = find_range(shared, address);
  if (found == nullptr) {
    return not_registered;
  }
  shared.ranges.erase(found->address / page_size() * page_size());
  return success;
}

int device_pointer(const state& shared, void* address, std::uint64_t& pointer) {
  if (find_range(shared, address) == nullptr) {
    return invalid_value;
  }
  pointer = reinterpret_cast<std::uintptr_t>(address) + shared.device_pointer_offset;
  return success;
}

// ---- Device memory and copies

int allocate_device_memory(state& shared, void** made, std::size_t size_bytes) {
  if (size_bytes == 0) {
    *made = nullptr;
    return success;
  }
  std::vector<std::byte> memory(size_bytes);
  *made = memory.data();
  shared.device_memory.emplace(*made, std::move(memory));
  return success;
}

int free_device_memory(state& shared, void* address) {
  return address == nullptr || shared.device_memory.erase(address) == 1 ? success : invalid_value;
}

namespace {
// True where no registration covers a part of the bytes and not all of them.
bool straddles_no_range(const state& shared, const void* address, std::size_t size_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  return std::all_of(shared.ranges.begin(), shared.ranges.end(), [&](const auto& entry) {
    const bool is_apart = entry.first >= first + size_bytes || entry.second.end <= first;
    return is_apart || (entry.first <= first && first + size_bytes <= entry.second.end);
  });
}
}  // namespace

int copy(const state& shared, void* to, const void* from, std::size_t size_bytes, int kind) {
  constexpr int to_device = 1;
  constexpr int to_host = 2;
  if (kind != to_device && kind != to_host) {
    return invalid_value;
  }
  if (!straddles_no_range(shared, kind == to_device ? from : to, size_bytes)) {
    return invalid_value;
  }
  std::memcpy(to, from, size_bytes);
  return success;
}

// ---- Events

namespace {
event* find_event(state& shared, void* wanted) {
  const auto found = shared.events.find(wanted);
  return found == shared.events.end() ? nullptr : found->second.get();
}
}  // namespace

int make_event(state& shared, void** made) {
  auto fresh = std::make_unique<event>();
  *made = fresh.get();
  shared.events.emplace(*made, std::move(fresh));
  return success;
}

int record_event(state& shared, void* recorded) {
  event* found = find_event(shared, recorded);
  if (found == nullptr) {
    return invalid_handle;
  }
  found->is_complete = !shared.events_are_late;
  return success;
}

int query_event(state& shared, void* asked) {
  const event* found = find_event(shared, asked);
  if (found == nullptr) {
    return invalid_handle;
  }
  return found->is_complete ? success : not_ready;
}

int synchronize_event(scoped_call& call, state& shared, void* awaited) {
  shared.changed.wait(call.lock(), [&] { return query_event(shared, awaited) != not_ready; });
  return query_event(shared, awaited);
}

int destroy_event(state& shared, void* destroyed) {
  return shared.events.erase(destroyed) == 1 ? success : invalid_handle;
}

const char* error_name(int code) {
  switch (code) {
    case success:
      return "fake success";
    case invalid_value:
      return "fake invalid value";
    case gone:
      return "fake driver gone";
    case insufficient_driver:
      return "fake insufficient driver";
    case no_device:
      return "fake no device";
    case already_registered:
      return "fake already registered";
    case not_registered:
      return "fake not registered";
    default:
      return "fake error";
  }
}

}  // namespace fake_cuda
