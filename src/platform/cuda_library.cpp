// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

#include <numapool/environment.hpp>

namespace numapool::platform {
namespace {

void add_reason(std::string& reasons, const std::string& reason) {
  if (!reasons.empty()) {
    reasons += "; ";
  }
  reasons += reason;
}

// dlerror's text starts with the name that was asked for. The usual answer, no such file, is
// shortened: three names and a driver that are simply absent should still make a readable sentence.
std::string why_not_opened(const std::string& name) {
  const char* text = ::dlerror();
  if (text == nullptr) {
    return name + ": not loaded";
  }
  const std::string_view said{text};
  if (said.find("No such file or directory") != std::string_view::npos) {
    return name + ": not found";
  }
  return said.substr(0, name.size()) == name ? std::string{said} : name + ": " + std::string{said};
}

// Takes every symbol of `api` from `handle`; the name of the first that is missing, or null.
template <class Api>
const char* bind_symbols(void* handle, Api& api) {
  const char* missing = nullptr;
  visit_symbols(api, [&](const char* symbol, auto& function) {
    void* address = ::dlsym(handle, symbol);
    if (address == nullptr && missing == nullptr) {
      missing = symbol;
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  });
  return missing;
}

template <class Function>
std::string file_of(Function* function) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr) {
    return "(unknown file)";
  }
  return info.dli_fname;
}

// The library behind `handle`, or null with the reason added. The handle stays open either way:
// closing a CUDA library that lacks a symbol would run its destructors for no gain.
template <class Api>
std::unique_ptr<cuda_library<Api>> take(void* handle, const std::string& name,
                                        library_source source, std::string& reasons) {
  auto library = std::make_unique<cuda_library<Api>>();
  if (const char* missing = bind_symbols(handle, library->call); missing != nullptr) {
    add_reason(reasons, name + ": has no " + missing);
    return nullptr;
  }
  library->path = file_of(library->call.host_register);
  library->source = source;
  return library;
}

template <class Api>
std::unique_ptr<cuda_library<Api>> open(const std::string& name, library_source source,
                                        std::string& reasons) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    add_reason(reasons, why_not_opened(name));
    return nullptr;
  }
  return take<Api>(handle, name, source, reasons);
}

// Files that this process has loaded and that are named like a runtime: a Python wheel renames its
// copy and changes the soname ("libcudart-<hash>.so.11.0"), so asking by soname alone would load a
// second runtime beside it.
std::vector<std::string> loaded_runtime_files() {
  std::vector<std::string> files;
  const auto visit = [](dl_phdr_info* info, std::size_t, void* context) {
    const std::string_view path{info->dlpi_name == nullptr ? "" : info->dlpi_name};
    const std::string_view file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    const bool is_runtime =
        file.substr(0, 9) == "libcudart" && file.find(".so") != std::string_view::npos;
    if (is_runtime) {
      static_cast<std::vector<std::string>*>(context)->emplace_back(path);
    }
    return 0;
  };
  ::dl_iterate_phdr(visit, &files);
  return files;
}

std::unique_ptr<runtime_library> find_in_process(const cuda_search& search, std::string& reasons) {
  std::vector<std::string> names = search.runtime_names;
  const std::vector<std::string> files = loaded_runtime_files();
  names.insert(names.end(), files.begin(), files.end());
  for (const std::string& name : names) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) {
      continue;
    }
    if (auto library = take<runtime_api>(handle, name, library_source::in_process, reasons)) {
      return library;
    }
  }
  // A runtime linked statically into the program or a library, and exported by it.
  if (::dlsym(RTLD_DEFAULT, "cudaHostRegister") == nullptr) {
    return nullptr;
  }
  const char* name = "the runtime linked into this process";
  auto library = take<runtime_api>(RTLD_DEFAULT, name, library_source::in_process, reasons);
  // Where a library has it, one more reference keeps that library loaded. For the program itself
  // this fails, and may.
  if (library != nullptr) {
    ::dlopen(library->path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  return library;
}

std::unique_ptr<runtime_library> find_any_runtime(const cuda_search& search, std::string& reasons) {
  if (search.in_process) {
    if (auto library = find_in_process(search, reasons)) {
      return library;
    }
  }
  if (!search.override_name.empty()) {
    std::string why;
    auto library = open<runtime_api>(search.override_name, library_source::override_name, why);
    if (library == nullptr) {
      add_reason(reasons, "NUMAPOOL_CUDART names a runtime that cannot be used: " + why);
    }
    return library;
  }
  for (const std::string& name : search.runtime_names) {
    if (auto library = open<runtime_api>(name, library_source::search, reasons)) {
      return library;
    }
  }
  return nullptr;
}

std::atomic<bool> exit_has_begun{false};

// exit() goes backwards: what is registered after a library was loaded is run before that library's
// destructors. Where it cannot be registered nothing is known, as before.
void watch_for_exit() noexcept {
  static_cast<void>(std::atexit([] { exit_has_begun = true; }));
}

}  // namespace

cuda_search cuda_search::from_environment() {
  cuda_search search;
  if (const char* name = ::secure_getenv(environment::cudart); name != nullptr) {
    search.override_name = name;
  }
  return search;
}

found_library<runtime_library> find_runtime(const cuda_search& search) {
  std::string reasons;
  auto library = find_any_runtime(search, reasons);
  if (library != nullptr && library->call.runtime_get_version(&library->version) != cuda_success) {
    library->version = 0;
  }
  return {std::move(library), std::move(reasons)};
}

found_library<driver_library> find_driver(const cuda_search& search) {
  if (search.driver_name.empty()) {
    return {nullptr, "no driver was looked for"};
  }
  std::string reasons;
  auto library = open<driver_api>(search.driver_name, library_source::search, reasons);
  return {std::move(library), std::move(reasons)};
}

std::unique_ptr<const driver_library> find_driver_in_process(const cuda_search& search) {
  if (search.driver_name.empty()) {
    return nullptr;
  }
  void* const handle = ::dlopen(search.driver_name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  std::string ignored;
  return handle == nullptr
             ? nullptr
             : take<driver_api>(handle, search.driver_name, library_source::in_process, ignored);
}

const runtime_library* cuda_libraries::runtime(std::string& reason) {
  const base::lock_guard lock{mutex_};
  if (runtime_ == nullptr) {
    auto found = find_runtime(search_);
    runtime_ = std::move(found.library);
    reason = std::move(found.reason);
    if (runtime_ != nullptr) {
      watch_for_exit();
    }
  }
  return runtime_.get();
}

const driver_library* cuda_libraries::driver(std::string& reason) {
  const base::lock_guard lock{mutex_};
  if (driver_ == nullptr) {
    auto found = find_driver(search_);
    driver_ = std::move(found.library);
    reason = std::move(found.reason);
    if (driver_ != nullptr) {
      watch_for_exit();
    }
  }
  return driver_.get();
}

bool cuda_libraries::has_exit_begun() noexcept {
  return exit_has_begun;
}

const driver_library* cuda_libraries::driver_in_process() {
  const base::lock_guard lock{mutex_};
  if (driver_ == nullptr) {
    driver_ = find_driver_in_process(search_);
  }
  return driver_.get();
}

}  // namespace numapool::platform
