// SPDX-License-Identifier: Apache-2.0

// Memory made resident: the pool beside the original's way and the bare loops, and what it costs
// beside the filling.

#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <numapool/worker_pool.hpp>

#include "cli/quantity.hpp"
#include "goal_groups.hpp"
#include "goal_pool.hpp"
#include "raw_fill.hpp"
#include "region.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::size_t gib = std::size_t{1} << 30U;

// A line of /proc/self/status in bytes.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) {
      return std::stoll(line.substr(key.size() + 1)) * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no " + key);
}

std::int64_t own_bytes() {
  return status_bytes("RssAnon") + status_bytes("VmPTE");
}

class memory_goals final : public goal_group {
 public:
  memory_goals(std::shared_ptr<goal_pool> measured, std::size_t size_bytes)
      : measured_(std::move(measured)), size_bytes_(size_bytes) {}

  std::vector<goal> goals() override {
    std::vector<goal> all;
    add_speeds(all);
    add_floors(all);
    add_shares(all);
    return all;
  }

 private:
  request ask(std::size_t size_bytes, page_policy pages, populate_mode populate,
              pin_policy pin) const {
    return measured_->ask(size_bytes, pages, populate, pin);
  }

  void add_speed(std::vector<goal>& all, const std::string& what, const request& asked,
                 double times) {
    all.push_back({cli::format_bytes(asked.size_bytes) + ", " + what + ": times the original",
                   bound::at_least, times, [this, asked] {
                     return measured_->original_seconds(asked.size_bytes) /
                            measured_->pool_seconds(asked);
                   }});
  }
  void add_speeds(std::vector<goal>& all) {
    const auto locked = [this](std::size_t size_bytes) {
      return ask(size_bytes, page_policy::thp, populate_mode::quiet, pin_policy::mlock);
    };
    add_speed(all, "huge pages, locked", locked(size_bytes_), 6);
    add_speed(all, "huge pages, locked", locked(64 * mib), 6.5);
    add_speed(all, "huge pages, locked", locked(2 * mib), 9);
    add_speed(all, "base pages, fast",
              ask(size_bytes_, page_policy::base, populate_mode::fast, pin_policy::none), 2.5);
  }

  void add_floor(std::vector<goal>& all, const std::string& what, const request& asked,
                 const raw_options& raw) {
    all.push_back({cli::format_bytes(asked.size_bytes) + ", " + what + ": of the bare loop's speed",
                   bound::at_least, 0.95, [this, asked, raw] {
                     return measured_->raw_seconds(asked.size_bytes, raw) /
                            measured_->pool_seconds(asked);
                   }});
  }
  void add_floors(std::vector<goal>& all) {
    add_floor(all, "huge pages, locked",
              ask(size_bytes_, page_policy::thp, populate_mode::quiet, pin_policy::mlock),
              {page_choice::huge, fill_choice::touch, true});
    add_floor(all, "base pages, quiet",
              ask(size_bytes_, page_policy::base, populate_mode::quiet, pin_policy::none),
              {page_choice::base, fill_choice::touch, false});
    add_floor(all, "base pages, fast",
              ask(size_bytes_, page_policy::base, populate_mode::fast, pin_policy::none),
              {page_choice::base, fill_choice::call, false});
  }

  double lock_share() {
    measured_->prepare(size_bytes_);
    region made(size_bytes_, page_choice::huge);
    const auto begun = std::chrono::steady_clock::now();
    if (::mlock2(made.data(), size_bytes_, MLOCK_ONFAULT) != 0) {
      throw std::system_error(errno, std::generic_category(), "mlock2");
    }
    return seconds_since(begun) /
           measured_->raw_seconds(size_bytes_, {page_choice::huge, fill_choice::touch, false});
  }
  double verify_share(verify_policy how) {
    request what = ask(size_bytes_, page_policy::thp, populate_mode::quiet, pin_policy::none);
    what.verify = how;
    measured_->prepare(size_bytes_);
    const buffer made = measured_->pool().allocate(what);
    return std::chrono::duration<double>(made.timings().verify) /
           std::chrono::duration<double>(made.timings().populate);
  }
  double overhead_share() {
    measured_->prepare(size_bytes_);
    const auto begun = std::chrono::steady_clock::now();
    const buffer made = measured_->pool().allocate(
        ask(size_bytes_, page_policy::thp, populate_mode::quiet, pin_policy::none));
    const double whole = seconds_since(begun);
    return 1 - std::chrono::duration<double>(made.timings().populate).count() / whole;
  }
  // The page tables of the buffer itself are its own: those of a bare mapping come off.
  double memory_share() {
    wait_for_releases();
    const std::int64_t before = own_bytes();
    std::int64_t bare = 0;
    {
      const region made =
          measured_->filler().fill(size_bytes_, {page_choice::huge, fill_choice::touch, false});
      bare = own_bytes() - before;
    }
    const std::int64_t between = own_bytes();
    const buffer made = measured_->pool().allocate(
        ask(size_bytes_, page_policy::thp, populate_mode::quiet, pin_policy::none));
    const std::int64_t ours = own_bytes() - between;
    const double allowed = static_cast<double>(mib) + 16.0 * 1024 *
                                                          static_cast<double>(size_bytes_) /
                                                          static_cast<double>(gib);
    return static_cast<double>(ours - bare) / allowed;
  }
  void add_shares(std::vector<goal>& all) {
    const std::string size = cli::format_bytes(size_bytes_);
    all.push_back({size + ": locking, of the time to fill", bound::at_most, 0.01, [this] {
                     return lock_share();
                   }});
    all.push_back({size + ", huge pages: sampled verification, of the time to fill", bound::at_most,
                   0.01, [this] {
                     return verify_share(verify_policy::sample);
                   }});
    all.push_back({size + ", huge pages: full verification, of the time to fill", bound::at_most,
                   0.1, [this] {
                     return verify_share(verify_policy::full);
                   }});
    all.push_back({size + ", huge pages: of a request's time, what is not filling", bound::at_most,
                   0.02, [this] {
                     return overhead_share();
                   }});
    all.push_back({size + ": memory of ours, of 1 MiB and 16 KiB a GiB", bound::at_most, 1, [this] {
                     return memory_share();
                   }});
  }

  const std::shared_ptr<goal_pool> measured_;
  const std::size_t size_bytes_;
};

}  // namespace

std::unique_ptr<goal_group> make_memory_goals(const std::shared_ptr<goal_pool>& measured,
                                              std::size_t size_bytes) {
  return std::make_unique<memory_goals>(measured, size_bytes);
}

}  // namespace numapool::bench
