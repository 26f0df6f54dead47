// SPDX-License-Identifier: Apache-2.0

// Goal: the cost model has the shape that it claims, its fit finds what made the points and never
// sees those held out. Method: every kind of work over grids; points made by known parameters.

#include "bench/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/least_squares.hpp"
#include "bench/model_points.hpp"

namespace numapool::bench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
constexpr cost_parameters some{0.1, 0.2, 20, 0.12, 2.5, 0.01};
constexpr work_kind works[]{work_kind::populate, work_kind::register_resident,
                            work_kind::populate_then_register, work_kind::pipelined,
                            work_kind::driver_call};
constexpr page_kind kinds_of_page[]{page_kind::base, page_kind::thp, page_kind::hugetlb};

// Calls `look` with a workload of every kind.
template <typename Look>
void for_each_kind(Look look) {
  for (const work_kind work : works) {
    for (const page_kind pages : kinds_of_page) {
      for (const std::uint64_t chunk : {std::uint64_t{0}, gib, 64 * gib}) {
        look(workload{work, pages, 300 * gib, chunk, 8, 2});
      }
    }
  }
}

TEST(CostModel, MoreBytesTakeLonger) {
  for_each_kind([](workload load) {
    load.bytes = 0;
    EXPECT_EQ(predict_seconds(some, load), 0);
    double before = 0;
    for (load.bytes = 1; load.bytes <= 4096 * gib; load.bytes = load.bytes * 3 + 1) {
      const double seconds = predict_seconds(some, load);
      EXPECT_GT(seconds, before) << load.bytes;
      before = seconds;
    }
  });
}

TEST(CostModel, MoreThreadsOrNodesAreNeverSlower) {
  for_each_kind([](const workload& load) {
    for (unsigned workload::*const grown : {&workload::threads, &workload::nodes}) {
      workload tried = load;
      double before = std::numeric_limits<double>::infinity();
      for (unsigned count = 1; count <= 1024; count += 1 + count / 8) {
        tried.*grown = count;
        const double seconds = predict_seconds(some, tried);
        EXPECT_LE(seconds, before) << count;
        before = seconds;
      }
    }
  });
}

TEST(CostModel, PopulatingGainsFromThreadsUpToTheSaturation) {
  workload load{work_kind::populate, page_kind::base, 1'000'000'000, 0, 1, 1};
  EXPECT_DOUBLE_EQ(predict_seconds(some, load), some.zero + some.fault);
  load.threads = 4'000'000;
  EXPECT_NEAR(predict_seconds(some, load), (some.zero + some.fault) / some.saturation, 1e-6);
  load.nodes = 4;
  EXPECT_NEAR(predict_seconds(some, load), (some.zero + some.fault) / some.saturation / 4, 1e-6);
}

TEST(CostModel, HugePagesCostTheirZeroingAndRegisterFaster) {
  workload base{work_kind::register_resident, page_kind::base, 1'000'000'000, 0, 8, 1};
  workload huge = base;
  huge.pages = page_kind::thp;
  EXPECT_DOUBLE_EQ(predict_seconds(some, base), 0.12 + 0.01);
  EXPECT_DOUBLE_EQ(predict_seconds(some, huge), 0.12 / 2.5 + 0.01);
  base.work = huge.work = work_kind::populate;
  EXPECT_DOUBLE_EQ(predict_seconds(some, base) / predict_seconds(some, huge), 3);
}

TEST(CostModel, EveryRegistrationCallCosts) {
  workload load{work_kind::register_resident, page_kind::base, 10 * gib, 0, 1, 1};
  const double one_call = predict_seconds(some, load);
  load.chunk_bytes = gib;
  EXPECT_NEAR(predict_seconds(some, load) - one_call, 9 * 0.01, 1e-9);
  load.bytes += 1;  // which needs an eleventh
  EXPECT_NEAR(predict_seconds(some, load) - one_call, 10 * 0.01, 1e-6);
}

TEST(CostModel, APipelineIsBetweenTheLongerPartAndTheSum) {
  for_each_kind([](workload load) {
    const double populate = populate_seconds(some, load);
    const double registration = register_seconds(some, load);
    load.work = work_kind::pipelined;
    const double seconds = predict_seconds(some, load);
    EXPECT_GE(seconds, std::max(populate, registration));
    EXPECT_LE(seconds, populate + registration);
    if (load.chunk_bytes == 0) {
      EXPECT_DOUBLE_EQ(seconds, populate + registration);
    }
  });
}

TEST(CostModel, TheDriversCallHasOneThread) {
  const workload one{work_kind::driver_call, page_kind::base, gib, 0, 1, 1};
  const workload many{work_kind::driver_call, page_kind::base, gib, gib / 64, 64, 2};
  EXPECT_DOUBLE_EQ(predict_seconds(some, one), predict_seconds(some, many));
  EXPECT_DOUBLE_EQ(predict_seconds(some, one),
                   populate_seconds(some, one) + register_seconds(some, one));
}

TEST(CostModel, AHostsFactorsSlowItsWork) {
  const host_factors slow{"slow", 3, 2};
  const workload load{work_kind::populate_then_register, page_kind::base, 1'000'000'000, 0, 1, 1};
  EXPECT_DOUBLE_EQ(predict_seconds(some, load, slow), 3 * 0.3 + 2 * 0.12 + 0.01);
}

TEST(CostModel, RefusesNoThreadAndNoNode) {
  EXPECT_THROW(static_cast<void>(predict_seconds(some, {{}, {}, gib, 0, 0, 1})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(predict_seconds(some, {{}, {}, gib, 0, 1, 0})),
               std::invalid_argument);
}

// Two hosts as fast as `some` says, whose every second point is held out, and what tells of calls.
std::vector<measured_point> made_points() {
  std::vector<measured_point> points;
  for (const std::string_view host : {"a", "b"}) {
    for (const work_kind work : {work_kind::populate, work_kind::register_resident}) {
      for (const page_kind pages : {page_kind::base, page_kind::thp}) {
        for (const unsigned threads : {1U, 2U, 8U, 32U}) {
          points.push_back({host, {work, pages, gib, 0, threads, 1}, 0, "made"});
        }
      }
    }
  }
  for (const std::uint64_t chunk : {gib / 64, gib}) {
    points.push_back(
        {"calls", {work_kind::register_resident, page_kind::base, gib, chunk, 1, 1}, 0, "made"});
  }
  for (measured_point& one : points) {
    one.seconds = predict_seconds(some, one.load);
  }
  return points;
}

TEST(CostModelFit, FindsWhatMadeThePoints) {
  const cost_fit fit = fit_cost_model(made_points());
  EXPECT_NEAR(fit.parameters.zero, some.zero, 1e-5);
  EXPECT_NEAR(fit.parameters.fault, some.fault, 1e-5);
  EXPECT_NEAR(fit.parameters.saturation, some.saturation, 1e-3);
  EXPECT_NEAR(fit.parameters.registration, some.registration, 1e-5);
  EXPECT_NEAR(fit.parameters.huge_page_gain, some.huge_page_gain, 1e-4);
  EXPECT_NEAR(fit.parameters.registration_call, some.registration_call, 1e-5);
  for (const host_factors& one : fit.hosts) {
    EXPECT_NEAR(one.populate, 1, 1e-5) << one.host;
    EXPECT_NEAR(one.registration, 1, 1e-5) << one.host;
  }
}

TEST(CostModelFit, TellsASlowHostByItsFittedPoints) {
  std::vector<measured_point> points = made_points();
  for (measured_point& one : points) {
    one.seconds = predict_seconds(some, one.load, {"", one.host == "b" ? 2.0 : 1.0, 1});
  }
  const cost_fit fit = fit_cost_model(points);
  EXPECT_NEAR(factors_of(fit, "b").populate / factors_of(fit, "a").populate, 2, 0.05);
  EXPECT_NEAR(factors_of(fit, "b").registration / factors_of(fit, "a").registration, 1, 0.05);
  EXPECT_EQ(factors_of(fit, "nobody's").populate, 1);
}

TEST(CostModelFit, NeverSeesThePointsHeldOut) {
  const std::vector<measured_point> points = published_points();
  std::vector<measured_point> changed = points;
  std::size_t held_out = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_held_out(points, i)) {
      changed[i].seconds *= 10;
      ++held_out;
    }
  }
  EXPECT_GT(held_out, points.size() / 3);
  const cost_parameters first = fit_cost_model(points).parameters;
  const cost_parameters second = fit_cost_model(changed).parameters;
  EXPECT_EQ(first.zero, second.zero);
  EXPECT_EQ(first.saturation, second.saturation);
  EXPECT_EQ(first.registration, second.registration);
  EXPECT_EQ(first.registration_call, second.registration_call);
}

TEST(CostModelFit, HoldsOutEverySecondPointAndAHostsOnlyOne) {
  const workload whole{work_kind::register_resident, page_kind::base, gib, 0, 1, 1};
  const workload pieces{work_kind::register_resident, page_kind::base, gib, gib / 4, 1, 1};
  const std::vector<measured_point> points{{"a", whole, 1, ""},  {"a", whole, 1, ""},
                                           {"a", whole, 1, ""},  {"b", whole, 1, ""},
                                           {"c", pieces, 1, ""}, {"c", whole, 1, ""}};
  std::vector<bool> held_out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    held_out.push_back(is_held_out(points, i));
  }
  EXPECT_THAT(held_out, ElementsAre(false, true, false, true, false, false));
}

TEST(CostModelFit, RefusesPointsThatAreAllHeldOut) {
  const workload load{work_kind::populate, page_kind::base, gib, 0, 1, 1};
  EXPECT_THROW(static_cast<void>(fit_cost_model({{"a", load, 1, ""}})), std::invalid_argument);
}

TEST(PublishedPoints, AreWholeAndStandByHost) {
  std::set<std::string_view> seen;
  std::string_view current;
  for (const measured_point& one : published_points()) {
    EXPECT_GT(one.seconds, 0) << one.source;
    EXPECT_GT(one.load.bytes, 0U) << one.source;
    EXPECT_FALSE(one.source.empty());
    if (one.host != current) {
      EXPECT_TRUE(seen.insert(one.host).second) << one.host;
      current = one.host;
    }
  }
}

// What numapool does: several threads, private memory, then registration.
TEST(PublishedPoints, HeldOutOfSeveralThreadsAreWithinAQuarter) {
  const std::vector<measured_point> points = published_points();
  const cost_fit fit = fit_cost_model(points);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const measured_point& one = points[i];
    const bool is_private = one.source.find("memfd") == std::string_view::npos;
    if (is_held_out(points, i) && one.load.threads > 1 && is_private) {
      ++seen;
      const double ratio =
          predict_seconds(fit.parameters, one.load, factors_of(fit, one.host)) / one.seconds;
      EXPECT_TRUE(is_within_quarter(ratio)) << one.source << ": " << ratio;
    }
  }
  EXPECT_GE(seen, 5U);
}

TEST(PublishedPoints, AQuarterIsEitherWay) {
  EXPECT_TRUE(is_within_quarter(1.25));
  EXPECT_TRUE(is_within_quarter(0.8));
  EXPECT_FALSE(is_within_quarter(1.26));
  EXPECT_FALSE(is_within_quarter(0.79));
}

TEST(LeastSquares, FindsTheMinimumOfACurvedValley) {
  const auto rosenbrock = [](const std::vector<double>& at) {
    return std::vector<double>{10 * (at[1] - at[0] * at[0]), 1 - at[0]};
  };
  EXPECT_THAT(fit_least_squares(rosenbrock, {-1.2, 1}),
              ElementsAre(DoubleNear(1, 1e-6), DoubleNear(1, 1e-6)));
}

TEST(LeastSquares, GivesTheMeanOfWhatCannotAllBeMet) {
  const auto residuals = [](const std::vector<double>& at) {
    return std::vector<double>{at[0] - 1, at[0] - 2, at[0] - 6};
  };
  EXPECT_THAT(fit_least_squares(residuals, {0}), ElementsAre(DoubleNear(3, 1e-6)));
}

TEST(LeastSquares, RefusesAStartWithoutAValue) {
  const auto residuals = [](const std::vector<double>& at) {
    return std::vector<double>{std::log(at[0])};
  };
  EXPECT_THROW(static_cast<void>(fit_least_squares(residuals, {-1})), std::invalid_argument);
}

TEST(LeastSquares, SaysWhenThereIsNoMinimum) {
  const auto residuals = [](const std::vector<double>& at) {
    return std::vector<double>{std::exp(-at[0] * 1e-4)};
  };
  EXPECT_THROW(static_cast<void>(fit_least_squares(residuals, {0})), std::runtime_error);
}

}  // namespace
}  // namespace numapool::bench
