// SPDX-License-Identifier: Apache-2.0
#pragma once

// Anonymous memory straight from the kernel, for the ways of filling it that the pool is measured
// against.
// Threads: distinct objects are safe.

#include <cstddef>
#include <utility>

namespace numapool::bench {

/// The base page of this machine.
[[nodiscard]] std::size_t base_page_bytes() noexcept;
/// What the kernel would give as a transparent huge page when asked to; 0: none, or the mode is
/// `never`.
[[nodiscard]] std::size_t huge_page_bytes();

/// Sets one byte of every base page, and the last byte, to zero; `size_bytes` is not 0.
void touch_pages(std::byte* data, std::size_t size_bytes) noexcept;

enum class page_choice { base, huge };

/// A private mapping, zero and not resident; unmapped by its destructor. Move-only.
class region {
 public:
  region() noexcept = default;
  /// With `page_choice::base` huge pages are advised against, else for. Throws std::system_error.
  region(std::size_t size_bytes, page_choice pages);
  region(region&& other) noexcept
      : mapped_(std::exchange(other.mapped_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        data_(other.data_),
        size_bytes_(other.size_bytes_) {}
  region& operator=(region&& other) noexcept;
  ~region();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;  // aligned to a huge page where they are wanted
  std::size_t size_bytes_ = 0;
};

}  // namespace numapool::bench
