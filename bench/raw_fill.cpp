// SPDX-License-Identifier: Apache-2.0
#include "raw_fill.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; newer than Debian 12's headers
#endif

namespace numapool::bench {
namespace {

constexpr std::size_t piece_bytes_max = 32UL << 20U;  // the quickest found, together with all from 2 MiB on

void touch(std::byte* data, std::size_t size_bytes, std::size_t step_bytes) {
  for (std::size_t offset = 0; offset < size_bytes; offset += step_bytes) {
    *static_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
}

[[noreturn]] void fail(int error_number, const char* what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

}  // namespace

raw_filler::raw_filler(unsigned threads) {
  for (unsigned helper = 1; helper < threads; ++helper) {
    helpers_.emplace_back([this] { help(); });
  }
}

raw_filler::~raw_filler() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) {
    helper.join();
  }
}

region raw_filler::fill(std::size_t size_bytes, const raw_options& options) {
  region made(size_bytes, options.pages);
  if (options.lock && ::mlock2(made.data(), size_bytes, MLOCK_ONFAULT) != 0) {
    fail(errno, "mlock2");
  }
  const std::size_t huge = options.pages == page_choice::huge ? huge_page_bytes() : 0;
  const std::size_t step = huge != 0 ? huge : base_page_bytes();
  const std::size_t piece = std::min(piece_bytes_max, size_bytes);
  std::atomic<std::size_t> next{0};
  std::atomic<int> error_number{0};
  const std::function<void()> job = [&] {
    for (std::size_t begin = 0; (begin = next.fetch_add(piece)) < size_bytes;) {
      std::byte* const data = made.data() + begin;
      const std::size_t length = std::min(piece, size_bytes - begin);
      if (options.fill == fill_choice::touch) {
        touch(data, length, step);
      } else if (::madvise(data, length, MADV_POPULATE_WRITE) != 0) {
        error_number = errno;
      }
    }
  };
  if (piece == size_bytes) {
    job();
  } else {
    run_on_all(job);
  }
  if (error_number != 0) {
    fail(error_number, "MADV_POPULATE_WRITE");
  }
  return made;
}

void raw_filler::make_warm(std::size_t size_bytes) {
  static_cast<void>(fill(size_bytes, {page_choice::huge, fill_choice::touch, false}));
}

void raw_filler::run_on_all(const std::function<void()>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++generation_;
    busy_ = helpers_.size();
  }
  changed_.notify_all();
  job();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void raw_filler::help() {
  std::unique_lock lock(mutex_);
  for (std::size_t seen = 0;;) {
    changed_.wait(lock, [&] { return is_closed_ || generation_ != seen; });
    if (is_closed_) {
      return;
    }
    seen = generation_;
    const std::function<void()>& job = *job_;
    lock.unlock();
    job();
    lock.lock();
    if (--busy_ == 0) {
      changed_.notify_all();
    }
  }
}

}  // namespace numapool::bench
