// SPDX-License-Identifier: Apache-2.0
#include "original_way.hpp"

#include <utility>

#include <boost/system/error_code.hpp>

#include <numapool/topology.hpp>

namespace numapool::bench {

original_way::original_way(node_id node) : worker_([this, node] { work(node); }) {}

original_way::~original_way() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_one();
  worker_.join();
}

region original_way::allocate(std::size_t size_bytes) {
  return send(size_bytes).get();
}
std::future<region> original_way::ask_for_nothing() {
  return send(0);
}

std::future<region> original_way::send(std::size_t size_bytes) {
  message sent{size_bytes, {}};
  std::future<region> answer = sent.reply.get_future();
  {
    const std::lock_guard lock(mutex_);
    channel_.push_back(std::move(sent));
  }
  changed_.notify_one();
  return answer;
}

void original_way::work(node_id node) {
  boost::system::error_code ignored;
  static_cast<void>(pin_thread_to_node(node, ignored));
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closed_ || !channel_.empty(); });
    if (channel_.empty()) {
      return;
    }
    message taken = std::move(channel_.front());
    channel_.pop_front();
    lock.unlock();
    try {
      region made;
      if (taken.size_bytes > 0) {
        made = region(taken.size_bytes, page_choice::base);
        touch_pages(made.data(), made.size_bytes());
      }
      taken.reply.set_value(std::move(made));
    } catch (...) {
      taken.reply.set_exception(std::current_exception());
    }
    lock.lock();
  }
}

}  // namespace numapool::bench
