// SPDX-License-Identifier: Apache-2.0
#include "dispatch_peers.hpp"

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/version.hpp>

#include "dispatch_shapes.hpp"

#if NUMAPOOL_PEER_TBB
#include <tbb/task_arena.h>
#include <tbb/version.h>
#endif
#if NUMAPOOL_PEER_BOOST_THREAD
#define BOOST_THREAD_VERSION 4           // NOLINT(readability-identifier-naming): Boost's
#define BOOST_THREAD_PROVIDES_EXECUTORS  // NOLINT(readability-identifier-naming): Boost's
#include <boost/thread/executors/basic_thread_pool.hpp>
#endif

namespace numapool::bench {
namespace {

class task_queue {
 public:
  task_queue() : worker_([this] { work(); }) {}
  ~task_queue() {
    post({});
    worker_.join();
  }
  task_queue(const task_queue&) = delete;
  task_queue& operator=(const task_queue&) = delete;

  template <typename Function>
  std::future<void> submit(Function function) {
    std::packaged_task<void()> task(std::move(function));
    std::future<void> done = task.get_future();
    post(std::move(task));
    return done;
  }

 private:
  void post(std::packaged_task<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      std::packaged_task<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task.valid()) {
        return;  // the empty one is the last
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::thread worker_;  // last: it uses the others
};

class io_thread {
 public:
  ~io_thread() {
    keep_.reset();
    thread_.join();
  }
  io_thread() = default;
  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  auto executor() { return context_.get_executor(); }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_{
      context_.get_executor()};
  std::thread thread_{[this] {
    context_.run();
  }};
};

// `owner` keeps alive what `executor` runs on.
template <typename Owner, typename Executor>
void add_executor(dispatch_peers& peers, const std::string& name, std::shared_ptr<Owner> owner,
                  Executor executor) {
  const auto post = [owner = std::move(owner), executor] {
    return boost::asio::post(executor, boost::asio::use_future);
  };
  peers.push_back({name, [post] { post().get(); }, [post] { await_many<std::future<void>>(post); },
                   [post, executor] {
                     post_many(executor);
                   }});
}

// For those whose functions have no future of their own: `post` is given functions, all of which it
// runs in order.
template <typename Post>
void add_with_promises(dispatch_peers& peers, const std::string& name, Post post) {
  const auto round_trip = [post] {
    std::promise<void> done;
    post([&done] { done.set_value(); });
    done.get_future().get();
  };
  const auto in_flight = [post] {
    std::vector<std::promise<void>> promises(jobs_in_flight);
    auto next = promises.begin();
    await_many<std::future<void>>([&] {
      std::promise<void>& done = *next++;
      post([&done] { done.set_value(); });
      return done.get_future();
    });
  };
  peers.push_back({name, round_trip, in_flight, [post] {
                     post_many_by(post);
                   }});
}

}  // namespace

void add_standard_library(dispatch_peers& peers) {
  const auto queue = std::make_shared<task_queue>();
  const auto submit = [queue](auto function) {
    return queue->submit(std::move(function));
  };
  peers.push_back({"std mutex, condition_variable, packaged_task",
                   [submit] { submit([] {}).get(); },
                   [submit] { await_many<std::future<void>>([&submit] { return submit([] {}); }); },
                   [submit] {
                     post_many_by([&submit](auto job) { static_cast<void>(submit(job)); });
                   }});
}

void add_asio(dispatch_peers& peers) {
  const auto pool = std::make_shared<boost::asio::thread_pool>(1);
  add_executor(peers, "asio thread_pool, use_future", pool, pool->get_executor());
  const auto context = std::make_shared<io_thread>();
  add_executor(peers, "asio io_context(1), use_future", context, context->executor());
}

#if NUMAPOOL_PEER_TBB
void add_onetbb(dispatch_peers& peers, peer_report& report) {
  report.versions.push_back("oneTBB " + std::to_string(TBB_VERSION_MAJOR) + "." +
                            std::to_string(TBB_VERSION_MINOR));
  // One slot, and none of it kept for the caller: a worker takes it.
  const auto arena = std::make_shared<tbb::task_arena>(1, 0);
  add_with_promises(peers, "oneTBB task_arena, promise",
                    [arena](auto job) { arena->enqueue(std::move(job)); });
}
#else
void add_onetbb(dispatch_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("oneTBB's task_arena", "peers");
}
#endif

#if NUMAPOOL_PEER_BOOST_THREAD
void add_boost_thread(dispatch_peers& peers, peer_report& report) {
  report.versions.push_back("Boost.Thread " + std::to_string(BOOST_VERSION / 100000) + "." +
                            std::to_string(BOOST_VERSION / 100 % 1000));
  const auto pool = std::make_shared<boost::executors::basic_thread_pool>(1U);
  add_with_promises(peers, "Boost.Thread basic_thread_pool, promise",
                    [pool](auto job) { pool->submit(std::move(job)); });
}
#else
void add_boost_thread(dispatch_peers& /*peers*/, peer_report& report) {
  report.note_not_built_in("Boost.Thread", "boost-thread");
}
#endif

}  // namespace numapool::bench
