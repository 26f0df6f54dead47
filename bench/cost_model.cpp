// SPDX-License-Identifier: Apache-2.0
#include "cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "least_squares.hpp"

namespace numapool::bench {
namespace {

constexpr std::size_t parameter_count = 6;

// Published repetitions of one thing differ by 10 %, hosts by half: the square of their quotient
// weighs a host's factors against the points.
constexpr double host_weight = 0.05;

void check(const workload& load) {
  if (load.threads == 0 || load.nodes == 0) {
    throw std::invalid_argument("a prediction needs a thread and a node at least");
  }
}

double gigabytes(const workload& load) {
  return static_cast<double>(load.bytes) / 1e9;
}

std::uint64_t call_count(const workload& load) {
  if (load.bytes == 0 || load.chunk_bytes == 0) {
    return load.bytes == 0 ? 0 : 1;
  }
  return (load.bytes - 1) / load.chunk_bytes + 1;
}

std::size_t count_points(const std::vector<measured_point>& points, std::string_view host) {
  return static_cast<std::size_t>(std::count_if(
      points.begin(), points.end(), [&](const measured_point& one) { return one.host == host; }));
}

// Of the logarithms, so that all of it is positive.
cost_parameters to_parameters(const std::vector<double>& logarithms) {
  std::vector<double> value(parameter_count);
  std::transform(logarithms.begin(), logarithms.begin() + parameter_count, value.begin(),
                 [](double one) { return std::exp(one); });
  return {value[0], value[1], value[2], value[3], value[4], value[5]};
}

cost_fit to_fit(const std::vector<double>& logarithms, const std::vector<std::string>& hosts) {
  cost_fit fit{to_parameters(logarithms), {}};
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::size_t first = parameter_count + 2 * i;
    fit.hosts.push_back({hosts[i], std::exp(logarithms[first]), std::exp(logarithms[first + 1])});
  }
  return fit;
}

}  // namespace

double populate_seconds(const cost_parameters& parameters, const workload& load,
                        const host_factors& host) {
  check(load);
  const double threads = load.threads;
  const double worth = threads / (1 + (threads - 1) / parameters.saturation) * load.nodes;
  const double fault = load.pages == page_kind::base ? parameters.fault : 0;
  return gigabytes(load) * (parameters.zero + fault) * host.populate / worth;
}

double register_seconds(const cost_parameters& parameters, const workload& load,
                        const host_factors& host) {
  check(load);
  const double gain = load.pages == page_kind::base ? 1 : parameters.huge_page_gain;
  return gigabytes(load) * parameters.registration * host.registration / gain +
         static_cast<double>(call_count(load)) * parameters.registration_call;
}

double predict_seconds(const cost_parameters& parameters, const workload& load,
                       const host_factors& host) {
  workload as_done = load;
  if (load.work == work_kind::driver_call) {
    as_done.threads = 1;
    as_done.nodes = 1;
    as_done.chunk_bytes = 0;
  }
  const double populate = populate_seconds(parameters, as_done, host);
  const double registration = register_seconds(parameters, as_done, host);
  switch (load.work) {
    case work_kind::populate:
      return populate;
    case work_kind::register_resident:
      return registration;
    case work_kind::pipelined: {
      // The longer one, and that part of the other which has nothing to run beside: its first
      // piece or its last.
      const auto pieces = static_cast<double>(std::max<std::uint64_t>(1, call_count(load)));
      return std::max(populate, registration) + std::min(populate, registration) / pieces;
    }
    case work_kind::populate_then_register:
    case work_kind::driver_call:
      break;
  }
  return populate + registration;
}

bool is_held_out(const std::vector<measured_point>& points, std::size_t index) {
  const std::string_view host = points.at(index).host;
  const bool tells_of_calls = std::any_of(
      points.begin(), points.end(),
      [&](const measured_point& one) { return one.host == host && call_count(one.load) > 1; });
  if (tells_of_calls) {
    return false;
  }
  const auto before =
      std::count_if(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(index),
                    [&](const measured_point& one) { return one.host == host; });
  return count_points(points, host) == 1 || before % 2 == 1;
}

cost_fit fit_cost_model(const std::vector<measured_point>& points) {
  std::vector<std::pair<const measured_point*, std::size_t>> fitted;  // and its host's index
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_held_out(points, i)) {
      continue;
    }
    const auto known = std::find(hosts.begin(), hosts.end(), points[i].host);
    fitted.emplace_back(&points[i], static_cast<std::size_t>(known - hosts.begin()));
    if (known == hosts.end()) {
      hosts.emplace_back(points[i].host);
    }
  }
  if (fitted.empty()) {
    throw std::invalid_argument("all points are held out: a host needs two to be fitted");
  }
  const auto residuals = [&](const std::vector<double>& logarithms) {
    const cost_fit tried = to_fit(logarithms, hosts);
    std::vector<double> values;
    for (const auto& [point, host] : fitted) {
      const double predicted = predict_seconds(tried.parameters, point->load, tried.hosts[host]);
      values.push_back(std::log(predicted / point->seconds));
    }
    for (std::size_t i = parameter_count; i < logarithms.size(); ++i) {
      values.push_back(std::sqrt(host_weight) * logarithms[i]);
    }
    return values;
  };
  // Orders of magnitude, where the path to the minimum begins: 0.1 s a GB, 10 threads, 10 ms.
  std::vector<double> start{std::log(0.1), std::log(0.1), std::log(10.0),
                            std::log(0.1), std::log(2.0), std::log(0.01)};
  start.resize(parameter_count + 2 * hosts.size());
  return to_fit(fit_least_squares(residuals, std::move(start)), hosts);
}

host_factors factors_of(const cost_fit& fit, std::string_view host) {
  const auto found = std::find_if(fit.hosts.begin(), fit.hosts.end(),
                                  [&](const host_factors& one) { return one.host == host; });
  return found == fit.hosts.end() ? host_factors{std::string(host), 1, 1} : *found;
}

bool is_within_quarter(double ratio) {
  return ratio >= 1 / 1.25 && ratio <= 1.25;
}

}  // namespace numapool::bench
