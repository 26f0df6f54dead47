// SPDX-License-Identifier: Apache-2.0
#include "cli/allocation_session.hpp"

#include <utility>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>

#include "cli/errors.hpp"
#include "cli/quantity.hpp"

namespace numapool::cli {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds progress_interval{500};  // nothing is shown of what is quicker

}  // namespace

allocation_session::allocation_session(worker_pool& pool, console& where)
    : pool_(pool),
      where_(where),
      work_(io_.get_executor()),
      signal_watch_(io_, signals_.descriptor()),
      timer_(io_) {
  signal_watch_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](const boost::system::error_code& error) {
                             if (!error) {
                               cancel_all();
                             }
                           });
  where_.set_gates([this](int descriptor) { return signals_.wait_until_writable(descriptor); });
}

// A handler of ours that throws here is a bug, and ends the process.
// NOLINTNEXTLINE(bugprone-exception-escape)
allocation_session::~allocation_session() {
  where_.set_gates({});
  // A thread that brought a completion here may not have let go of the context yet: run until
  // nothing holds it. The last hold of our own goes while it runs, so that whoever is last stops
  // it, and none of them after it is gone.
  timer_.cancel();
  static_cast<void>(signal_watch_.release());  // signals_ closes it
  asio::post(io_, [this] { work_.reset(); });
  io_.run();
}

void allocation_session::allocate(const std::vector<request>& requests) {
  buffers_.resize(requests.size());
  cancellations_.resize(requests.size());
  pending_ = requests.size();
  started_ = std::chrono::steady_clock::now();
  if (where_.err_is_terminal) {
    show_progress();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto completed = [this, i](const boost::system::error_code& error, buffer made) {
      finish(i, error, std::move(made));
    };
    pool_.async_allocate(requests[i],
                         asio::bind_cancellation_slot(
                             cancellations_[i].slot(),
                             asio::bind_executor(io_.get_executor(), std::move(completed))));
  }
  while (pending_ != 0) {
    io_.run_one();
  }
  timer_.cancel();
  clear_progress();
  if (signal() == 0 && !first_failure_) {
    return;
  }
  buffers_.clear();
  if (signal() != 0) {
    throw interrupted(signal());
  }
  throw error(std::exchange(first_failure_, {}));
}

void allocation_session::finish(std::size_t index, const boost::system::error_code& error,
                                buffer made) {
  --pending_;
  if (!error) {
    buffers_[index] = std::move(made);
    return;
  }
  const bool is_consequence = first_failure_ || signal() != 0;
  if (is_consequence) {
    return;
  }
  first_failure_ = made.why();
  if (!first_failure_) {
    first_failure_.code = error;
    first_failure_.message = error.message();
  }
  cancel_all();
}

void allocation_session::cancel_all() {
  for (asio::cancellation_signal& cancellation : cancellations_) {
    cancellation.emit(asio::cancellation_type::terminal);
  }
}

void allocation_session::show_progress() {
  timer_.expires_after(progress_interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || pending_ == 0) {
      return;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
    where_.err << "\rallocating: " << buffers_.size() - pending_ << " of " << buffers_.size()
               << " done, " << format_fixed(passed.count(), 1) << " s" << std::flush;
    progress_shown_ = true;
    show_progress();
  });
}

void allocation_session::clear_progress() {
  if (progress_shown_) {
    where_.err << "\r\x1b[K" << std::flush;  // erase to the end of the line (ECMA-48 EL)
  }
}

int allocation_session::hold(std::chrono::milliseconds time) {
  if (where_.err_is_terminal && time.count() != 0) {
    const std::chrono::duration<double> seconds = time;
    where_.err << "holding for " << format_fixed(seconds.count(), 1)
               << " s; interrupt to release at once\n"
               << std::flush;
  }
  bool is_over = false;
  timer_.expires_after(time);
  timer_.async_wait([&is_over](const boost::system::error_code&) { is_over = true; });
  while (!is_over && signal() == 0) {
    io_.run_one();
  }
  timer_.cancel();
  while (!is_over) {
    io_.run_one();  // the cancelled wait still refers to is_over
  }
  return signal();
}

}  // namespace numapool::cli
