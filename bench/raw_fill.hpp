// SPDX-License-Identifier: Apache-2.0
#pragma once

// The floor: the bare loops that make memory resident, by as many threads as the pool has, with
// nothing around them.

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "region.hpp"

namespace numapool::bench {

enum class fill_choice { touch, call };  // a byte a page, or MADV_POPULATE_WRITE

struct raw_options {
  page_choice pages = page_choice::base;
  fill_choice fill = fill_choice::touch;
  bool lock = false;  // mlock2(MLOCK_ONFAULT) before it is filled
};

/// Threads: one caller at a time.
class raw_filler {
 public:
  /// The caller is one of the `threads`.
  explicit raw_filler(unsigned threads);
  ~raw_filler();
  raw_filler(const raw_filler&) = delete;
  raw_filler& operator=(const raw_filler&) = delete;

  /// Mapped and filled. Throws std::system_error.
  [[nodiscard]] region fill(std::size_t size_bytes, const raw_options& options);
  /// Touches as much and frees it, so that the next to come finds memory that the host of a virtual
  /// machine has not
  /// taken back meanwhile (page reporting): such memory comes at 1 GB/s by whichever way.
  void make_warm(std::size_t size_bytes);

 private:
  void run_on_all(const std::function<void()>& job);
  void help();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* job_ = nullptr;
  std::size_t generation_ = 0;
  std::size_t busy_ = 0;
  bool is_closed_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace numapool::bench
