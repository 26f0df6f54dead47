// SPDX-License-Identifier: Apache-2.0

// How the pool shares: the process's address space with threads that only want some memory, the
// workers among requests, the driver with the filling of what comes next; and how soon whoever lets
// go of memory may go on.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/use_future.hpp>

#include <numapool/with_details.hpp>
#include <numapool/worker_pool.hpp>

#include "cli/quantity.hpp"
#include "futex_echo.hpp"
#include "goal_groups.hpp"
#include "goal_pool.hpp"
#include "platform/platform.hpp"
#include "pool/pool_core.hpp"
#include "spread.hpp"
#include "stall_watch.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

// A driver that takes its time for each byte and sleeps meanwhile, as one does that waits for the
// hardware: the CPUs are free for filling. A goal about pipelining needs no GPU then.
class paced_driver final : public platform::registrar {
 public:
  void set_seconds_a_byte(double seconds) noexcept { seconds_a_byte_ = seconds; }

  platform::registrar_status probe() noexcept override {
    return {platform::registrar_route::runtime, 1, {}, {}};
  }
  boost::system::error_code pci_address(int /*device*/, std::string& /*out*/) noexcept override {
    return boost::system::errc::make_error_code(boost::system::errc::not_supported);
  }
  boost::system::error_code host_node(int /*device*/, int& /*out*/) noexcept override {
    return boost::system::errc::make_error_code(boost::system::errc::not_supported);
  }
  boost::system::error_code active_devices(std::vector<int>& /*out*/) noexcept override {
    return boost::system::errc::make_error_code(boost::system::errc::not_supported);
  }
  boost::system::error_code register_range(int /*device*/, void* address, std::size_t size_bytes,
                                           void** device_pointer) noexcept override {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(seconds_a_byte_ * static_cast<double>(size_bytes)));
    *device_pointer = address;
    return {};
  }
  platform::unregister_result unregister_range(int /*device*/,
                                               void* /*address*/) noexcept override {
    return {platform::unregister_outcome::unregistered, {}};
  }

 private:
  double seconds_a_byte_ = 0;
};

class sharing_goals final : public goal_group {
 public:
  sharing_goals(std::shared_ptr<goal_pool> measured, std::size_t size_bytes)
      : measured_(std::move(measured)), size_bytes_(size_bytes) {}

  std::vector<goal> goals() override {
    std::vector<goal> all;
    add_stalls(all);
    add_requests(all);
    return all;
  }

 private:
  double stall_of_call(page_choice pages) {
    measured_->prepare(size_bytes_);
    region made(size_bytes_, pages);
    int error_number = 0;
    const double longest = watch_.longest_during([&] {
      error_number = ::madvise(made.data(), size_bytes_, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    });
    if (error_number != 0) {
      throw std::system_error(error_number, std::generic_category(), "MADV_POPULATE_WRITE");
    }
    return longest;
  }
  double stall_of_pool(page_policy pages) {
    measured_->prepare(size_bytes_);
    buffer made;
    return watch_.longest_during([&] {
      made = measured_->pool().allocate(
          measured_->ask(size_bytes_, pages, populate_mode::quiet, pin_policy::none));
    });
  }
  double stall_of_unmapping() {
    measured_->prepare(size_bytes_);
    region made =
        measured_->filler().fill(size_bytes_, {page_choice::base, fill_choice::call, false});
    return watch_.longest_during([&] { made = region(); });
  }
  double stall_of_release() {
    buffer made = filled_with_base_pages();
    return watch_.longest_during([&] {
      made.reset();
      wait_for_releases();
    });
  }
  buffer filled_with_base_pages() {
    measured_->prepare(size_bytes_);
    return measured_->pool().allocate(
        measured_->ask(size_bytes_, page_policy::base, populate_mode::fast, pin_policy::none));
  }
  void add_stalls(std::vector<goal>& all) {
    const std::string size = cli::format_bytes(size_bytes_);
    all.push_back(
        {size + ", base pages, placed quietly: one populate call's stall is times as long",
         bound::at_least, 75, [this] {
           return stall_of_call(page_choice::base) / stall_of_pool(page_policy::base);
         }});
    all.push_back(
        {size + ", huge pages, placed quietly: one populate call's stall is times as long",
         bound::at_least, 75, [this] {
           return stall_of_call(page_choice::huge) / stall_of_pool(page_policy::thp);
         }});
    all.push_back({size + ", base pages, released: one munmap's stall is times as long",
                   bound::at_least, 75, [this] {
                     return stall_of_unmapping() / stall_of_release();
                   }});
    all.push_back({cli::format_bytes(size_bytes_ / 16) +
                       ", base pages, released: the caller's time, of two futex wakes",
                   bound::at_most, 1, [this] {
                     return release_of_two_wakes();
                   }});
  }

  // Medians of several, each after a while of sleep for whoever is woken.
  double release_of_two_wakes() {
    std::vector<double> wakes;
    std::vector<double> releases;
    for (int i = 0; i < 9; ++i) {
      buffer made = measured_->pool().allocate(measured_->ask(
          size_bytes_ / 16, page_policy::base, populate_mode::fast, pin_policy::none));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      wakes.push_back(echo_.wake_seconds());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto begun = std::chrono::steady_clock::now();
      made.reset();
      releases.push_back(seconds_since(begun));
      wait_for_releases();
    }
    return spread_of(std::move(releases)).median / (2 * spread_of(std::move(wakes)).median);
  }

  // Of twice the size in all, once as one request and once as eight.
  double share_of_eight() {
    const auto asked = [this](std::size_t size_bytes) {
      return measured_->ask(size_bytes, page_policy::thp, populate_mode::quiet, pin_policy::none);
    };
    const double one = measured_->pool_seconds(asked(2 * size_bytes_));
    measured_->prepare(2 * size_bytes_);
    const double eight = seconds_to([&] {
      std::vector<std::future<buffer>> asking;
      for (int i = 0; i < 8; ++i) {
        asking.push_back(measured_->pool().async_allocate(asked(size_bytes_ / 4),
                                                          with_details(boost::asio::use_future)));
      }
      std::vector<buffer> made;
      for (std::future<buffer>& one_of_them : asking) {
        made.push_back(one_of_them.get());
      }
      return made;
    });
    return eight / one;
  }

  // The driver is made as slow as the filling, where pipelining brings most. It takes a worker's
  // time but no CPU's, so the pool has one worker more than the node has CPUs.
  double share_of_longer_step() {
    request what =
        measured_->ask(size_bytes_, page_policy::base, populate_mode::quiet, pin_policy::none);
    const auto seconds_of = [&] {
      measured_->prepare(size_bytes_);
      return seconds_to([&] { return registering_pool_->allocate(what); });
    };
    const double filling = seconds_of();
    driver_.set_seconds_a_byte(filling / static_cast<double>(size_bytes_));
    what.pin = pin_policy::cuda;
    what.device = 0;
    what.chunk_bytes = std::max(size_bytes_ / 32, mib);
    const double both = seconds_of();
    return both / filling;
  }
  void add_requests(std::vector<goal>& all) {
    all.push_back({"eight of " + cli::format_bytes(size_bytes_ / 4) +
                       " at once: of the time of one of " + cli::format_bytes(2 * size_bytes_),
                   bound::at_most, 1.1, [this] {
                     return share_of_eight();
                   }});
    all.push_back({cli::format_bytes(size_bytes_) +
                       " filled and registered in 32 ranges: of the longer of the two",
                   bound::at_most, 1.1, [this] {
                     return share_of_longer_step();
                   }});
  }

  const std::shared_ptr<goal_pool> measured_;
  const std::size_t size_bytes_;
  paced_driver driver_;
  platform::platform& real_ = platform::this_machine();
  platform::platform machine_{real_.files, real_.threads, real_.memory, driver_};
  std::unique_ptr<worker_pool> registering_pool_ =
      pool_access::make(machine_, topology::system(), [this] {
        worker_pool_options options;
        options.workers_per_node = static_cast<unsigned>(
            topology::system()->find(measured_->node())->usable_cpus.size() + 1);
        return options;
      }());
  futex_echo echo_;
  stall_watch watch_;
};

}  // namespace

std::unique_ptr<goal_group> make_sharing_goals(const std::shared_ptr<goal_pool>& measured,
                                               std::size_t size_bytes) {
  return std::make_unique<sharing_goals>(measured, size_bytes);
}

}  // namespace numapool::bench
