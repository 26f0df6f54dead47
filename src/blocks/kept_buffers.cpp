// SPDX-License-Identifier: Apache-2.0
#include "blocks/kept_buffers.hpp"

#include <utility>

#include "base/check.hpp"

namespace numapool::blocks {

kept_chain::~kept_chain() {
  while (first_ != nullptr) {
    const std::unique_ptr<kept_buffer> ending(std::exchange(first_, first_->next));
  }
}

void kept_chain::push(std::unique_ptr<kept_buffer> added) noexcept {
  bytes_ += added->held.mapped_bytes();
  ++buffers_;
  added->next = first_;
  first_ = added.release();
}

kept_buffers::~kept_buffers() {
  while (oldest_ != nullptr) {
    const std::unique_ptr<kept_buffer> ending = take(*oldest_);
  }
}

void kept_buffers::add(std::unique_ptr<kept_buffer>& added) {
  kept_buffer*& top = tops_[added->key];  // all that may throw
  kept_buffer* const one = added.release();
  one->below = std::exchange(top, one);
  one->above = nullptr;
  if (one->below != nullptr) {
    one->below->above = one;
  }
  one->older = std::exchange(newest_, one);
  one->newer = nullptr;
  (one->older != nullptr ? one->older->newer : oldest_) = one;
  bytes_ += one->held.mapped_bytes();
  ++buffers_;
}

std::unique_ptr<kept_buffer> kept_buffers::take(const reuse_key& key) noexcept {
  const auto found = tops_.find(key);
  return found == tops_.end() ? nullptr : take(*found->second);
}

std::unique_ptr<kept_buffer> kept_buffers::take(kept_buffer& which) noexcept {
  if (which.above != nullptr) {
    which.above->below = which.below;
  } else {
    const auto top = tops_.find(which.key);
    NUMAPOOL_CHECK(top != tops_.end() && top->second == &which);
    top->second = which.below;
    if (which.below == nullptr) {
      tops_.erase(top);
    }
  }
  if (which.below != nullptr) {
    which.below->above = which.above;
  }
  (which.newer != nullptr ? which.newer->older : newest_) = which.older;
  (which.older != nullptr ? which.older->newer : oldest_) = which.newer;
  bytes_ -= which.held.mapped_bytes();
  --buffers_;
  return std::unique_ptr<kept_buffer>(&which);
}

}  // namespace numapool::blocks
