// SPDX-License-Identifier: Apache-2.0
#include "ratio_measurement.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include <boost/system/error_code.hpp>

#include <numapool/worker_pool.hpp>

#include "machine_watch.hpp"
#include "original_way.hpp"
#include "raw_fill.hpp"

namespace numapool::bench {
namespace {

constexpr double foreign_share_max = 0.2;    // of the CPUs: more disturbs a sample
constexpr double short_sample_seconds = 0.1;  // the kernel's clock ticks too coarsely to judge a shorter one

// Seconds from the request to the memory in the caller's hands; what is given back is not in them.
using sampler = std::function<double(measured_way& way)>;

template <typename Make>
double timed(Make make) {
  const auto begun = std::chrono::steady_clock::now();
  const auto made = make();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  return passed.count();  // and `made` is given back
}

node_id first_usable_node(const topology& nodes) {
  for (const node_info& node : nodes.nodes()) {
    if (!node.usable_cpus.empty() && node.allowed_memory) {
      return node.id;
    }
  }
  return nodes.nodes().front().id;
}

// How many will take part: what a first buffer says.
unsigned workers_of(worker_pool& pool, node_id node) {
  request smallest;
  smallest.size_bytes = base_page_bytes();
  smallest.node = node;
  return pool.allocate(smallest).workers();
}

class session {
 public:
  explicit session(const ratio_options& options)
      : node_(first_usable_node(pool_.topology())),
        original_(node_),
        workers_(workers_of(pool_, node_)),
        warmer_(workers_) {
    result_.options = options;
    result_.workers = workers_;
    result_.watches_page_reporting = reported_kib().has_value();
    add("the original: one thread, base pages", 0,
        [this](measured_way&) { return timed([&] { return original_.allocate(size()); }); });
    add_pool("pool, base pages, quiet", 1.3, page_policy::base, populate_mode::quiet, pin_policy::none);
    add_pool("pool, base pages, fast", 1.3, page_policy::base, populate_mode::fast, pin_policy::none);
    add_pool("pool, huge pages (THP)", 2.0, page_policy::thp, populate_mode::quiet, pin_policy::none);
    add_pool("pool, huge pages, locked", 2.0, page_policy::thp, populate_mode::quiet, pin_policy::mlock);
  }

  ratio_result run() {
    std::mt19937_64 shuffler(result_.options.seed);
    std::vector<std::size_t> order(samplers_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    for (unsigned round = 0; round < result_.options.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), shuffler);
      for (const std::size_t way : order) {
        sample(way);
      }
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t size() const { return result_.options.size_bytes; }
  [[nodiscard]] bool has_time() const {
    return std::chrono::steady_clock::now() - begun_ < std::chrono::seconds(result_.options.calm_seconds);
  }

  void add(std::string name, double needed, sampler take) {
    result_.ways.push_back({std::move(name), needed, {}, {}, {}});
    samplers_.push_back(std::move(take));
  }

  void add_pool(std::string name, double needed, page_policy pages, populate_mode populate, pin_policy pin) {
    request what;
    what.size_bytes = size();
    what.node = node_;
    what.pages = pages;
    what.populate = populate;
    what.pin = pin;
    add(std::move(name), needed, [this, what](measured_way& way) { return sample_pool(what, way); });
  }

  double sample_pool(const request& what, measured_way& way) {
    return timed([&] {
      buffer made = pool_.allocate(what);
      if (what.pages == page_policy::thp && made.pages().huge_bytes != made.mapped_bytes()) {
        way.remark = "not all of it in huge pages: " + made.pages().reason;
      }
      return made;
    });
  }

  // A way that fails once is not asked again.
  void sample(std::size_t index) {
    measured_way& way = result_.ways[index];
    if (way.seconds.size() == result_.options.rounds || (way.seconds.empty() && !way.remark.empty())) {
      return;
    }
    for (unsigned attempt = 0;; ++attempt) {
      if (has_time()) {
        wait_for_calm(std::chrono::milliseconds(result_.options.patience_ms));
      }
      warmer_.make_warm(size());
      const machine_watch watch;
      double seconds = 0;
      try {
        seconds = samplers_[index](way);
      } catch (const error& failed) {
        if (index == 0) {
          throw;
        }
        way.seconds.clear();
        way.remark = failed.what();
        return;
      }
      const machine_watch::finding found = watch.look();
      const bool is_disturbed = found.reported_kib > 0 || (found.seconds >= short_sample_seconds &&
                                                           found.foreign_share > foreign_share_max);
      if (is_disturbed && attempt < result_.options.retries_a_sample && has_time()) {
        ++result_.retried;
        continue;
      }
      way.seconds.push_back(seconds);
      way.foreign_shares.push_back(found.foreign_share);
      result_.disturbed += is_disturbed ? 1 : 0;
      result_.reported_kib += found.reported_kib;
      return;
    }
  }

  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  worker_pool pool_;
  node_id node_;
  original_way original_;
  unsigned workers_;
  raw_filler warmer_;
  ratio_result result_;
  std::vector<sampler> samplers_;
};

}  // namespace

ratio_result measure_ratio(const ratio_options& options) { return session(options).run(); }

spread spread_of(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {values.front(), median, values.back()};
}

spread rate_of(const measured_way& way, std::size_t size_bytes) {
  std::vector<double> rates;
  for (const double seconds : way.seconds) {
    rates.push_back(static_cast<double>(size_bytes) / seconds / 1e9);
  }
  return spread_of(std::move(rates));
}

spread ratio_of(const measured_way& way, const measured_way& original) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(way.seconds.size(), original.seconds.size()); ++round) {
    ratios.push_back(original.seconds[round] / way.seconds[round]);
  }
  return spread_of(std::move(ratios));
}

bool is_short(const measured_way& way, const measured_way& original) {
  return way.needed > 0 && ratio_of(way, original).median < way.needed;
}

}  // namespace numapool::bench
