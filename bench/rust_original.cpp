// SPDX-License-Identifier: Apache-2.0
#include "rust_original.hpp"

#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <vector>

// As rust_original/src/lib.rs defines them.
extern "C" {
rust_original_worker* rust_original_start(const std::uint32_t* cpus, std::size_t count);
void rust_original_stop(rust_original_worker* worker);
void* rust_original_allocate(const rust_original_worker* worker, std::size_t size_bytes,
                             std::int32_t* error_number);
void rust_original_free(void* data, std::size_t size_bytes);
bool rust_original_ask(const rust_original_worker* worker, std::size_t count);
bool rust_original_post(const rust_original_worker* worker, std::size_t count);
}

namespace numapool::bench {
namespace {

rust_original_worker* start(const cpu_set& cpus) {
  std::vector<std::uint32_t> numbers;
  for (const cpu_id cpu : cpus) {
    numbers.push_back(cpu.value());
  }
  return rust_original_start(numbers.data(), numbers.size());
}

void check_answer(bool has_come) {
  if (!has_come) {
    throw std::runtime_error("the worker in Rust gave no answer");
  }
}

}  // namespace

rust_original::rust_original(const cpu_set& cpus) : worker_(start(cpus), rust_original_stop) {
  if (worker_ == nullptr) {
    throw std::runtime_error("the worker in Rust does not start");
  }
}

block rust_original::allocate(std::size_t size_bytes) {
  std::int32_t error_number = 0;
  void* const data = rust_original_allocate(worker_.get(), size_bytes, &error_number);
  if (data == nullptr) {
    throw std::system_error(error_number, std::generic_category(), "the worker in Rust");
  }
  return block_of(data, [size_bytes](void* freed) { rust_original_free(freed, size_bytes); });
}

void rust_original::ask(std::size_t count) {
  check_answer(rust_original_ask(worker_.get(), count));
}

void rust_original::post(std::size_t count) {
  check_answer(rust_original_post(worker_.get(), count));
}

}  // namespace numapool::bench
