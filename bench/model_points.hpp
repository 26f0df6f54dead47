// SPDX-License-Identifier: Apache-2.0
#pragma once

// Published times of populating and registering host memory: every one that tells its bytes, pages
// and threads, or lets them be deduced as its source says. What is missed stays. Hosts and points
// stand in order of work, pages, bytes, chunk and threads; is_held_out says which the fit may see.
//
// Not usable, and why: cloud-hypervisor#8785 (threads unknown, 1 GiB pages), the prefaulting of
// mori#679 and cudf#23457's 1 GiB after (threads unknown), Mooncake#875 (a network card's
// registration within), rmm#2496 (cudf's numbers again), vllm#54578 and LMCache#1445 (no bytes).

#include <cstdint>
#include <iterator>
#include <vector>

#include "cost_model.hpp"

namespace numapool::bench {

namespace published {

using enum work_kind;
using enum page_kind;
inline constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
inline constexpr std::uint64_t gb = 1'000'000'000;
inline constexpr work_kind both = populate_then_register;

// Rates for 1 GiB, of this project's own table, whose machine has two CPUs, are turned into times.
constexpr double at_rate(double gb_per_second) {
  return 1.073741824 / gb_per_second;
}

// Work, pages, bytes, chunk, threads a node, nodes.
inline constexpr measured_point points[] = {
    {"numapool", {populate, base, gib, 0, 1, 1}, at_rate(2.51), "touch, Zen 4 VM, Linux 6.18"},
    {"numapool", {populate, base, gib, 0, 2, 1}, at_rate(3.73), "touch"},
    {"numapool", {populate, thp, gib, 0, 1, 1}, at_rate(6.81), "populate call"},
    {"numapool", {populate, thp, gib, 0, 2, 1}, at_rate(11.18), "populate call"},
    {"numapool", {populate, hugetlb, gib, 0, 2, 1}, at_rate(12.59), "populate call"},

    {"rapids-jni", {populate, base, gib, 0, 1, 1}, 0.416, "spark-rapids-jni#4593"},
    {"rapids-jni", {populate, base, gib, 0, 8, 1}, 0.068, "spark-rapids-jni#4593"},
    {"rapids-jni", {populate, base, gib, 0, 16, 1}, 0.046, "spark-rapids-jni#4593"},
    {"rapids-jni", {populate, base, 4 * gib, 0, 1, 1}, 1.60, "spark-rapids-jni#4593"},
    {"rapids-jni", {populate, base, 4 * gib, 0, 8, 1}, 0.252, "spark-rapids-jni#4593"},
    {"rapids-jni", {populate, base, 4 * gib, 0, 16, 1}, 0.176, "spark-rapids-jni#4593"},
    {"rapids-jni", {driver_call, base, 64 * mib, 0, 1, 1}, 0.034, "spark-rapids-jni#4593"},
    {"rapids-jni", {driver_call, base, 256 * mib, 0, 1, 1}, 0.137, "spark-rapids-jni#4593"},

    {"mooncake", {populate, base, gib, 0, 1, 1}, 0.416, "Mooncake#3563, memfd"},
    {"mooncake", {populate, base, gib, 0, 4, 1}, 0.179, "Mooncake#3563, memfd"},

    {"dynamo", {both, base, 8 * gib, 0, 4, 1}, 1.55, "dynamo#13710, 8x H100"},
    {"dynamo", {both, base, 8 * gib, 0, 8, 1}, 1.09, "dynamo#13710"},
    {"dynamo", {both, base, 8 * gib, 0, 16, 1}, 1.03, "dynamo#13710"},
    {"dynamo", {both, base, 8 * gib, 0, 32, 1}, 0.92, "dynamo#13710"},
    {"dynamo", {driver_call, base, 8 * gib, 0, 1, 1}, 2.79, "dynamo#13710, 2.74 to 2.84"},

    {"cudf", {both, thp, 8 * gib, 0, 2, 1}, 0.867, "cudf#23457, g6.4xlarge"},
    {"cudf", {both, thp, 8 * gib, 0, 4, 1}, 0.796, "cudf#23457"},
    {"cudf", {both, thp, 8 * gib, 0, 16, 1}, 0.776, "cudf#23457"},
    {"cudf", {both, thp, 16 * gib, 0, 2, 1}, 1.69, "cudf#23457"},
    {"cudf", {both, thp, 16 * gib, 0, 4, 1}, 1.545, "cudf#23457"},
    {"cudf", {both, thp, 16 * gib, 0, 8, 1}, 1.55, "cudf#23457"},
    {"cudf", {both, thp, 16 * gib, 0, 16, 1}, 1.55, "cudf#23457"},
    {"cudf", {driver_call, base, gib, 0, 1, 1}, 0.492, "cudf#23457"},
    {"cudf", {driver_call, base, 8 * gib, 0, 1, 1}, 3.94, "cudf#23457"},
    {"cudf", {driver_call, base, 16 * gib, 0, 1, 1}, 7.86, "cudf#23457"},

    {"pegaflow", {both, base, 500 * gb, 0, 64, 2}, 21.3, "pegaflow#277, H20, 128 threads"},
    {"pegaflow", {both, hugetlb, 500 * gb, 0, 1, 1}, 88.5, "pegaflow#277, before: one thread"},
    {"pegaflow", {both, hugetlb, 500 * gb, 0, 64, 2}, 14.8, "pegaflow#277, 128 threads"},
    {"pegaflow", {driver_call, base, 500 * gb, 0, 1, 1}, 397.7, "pegaflow#277"},

    {"pegaflow-48", {both, base, 20 * gb, 0, 48, 1}, 3.9, "pegaflow#277, a thread a core taken"},
    {"pegaflow-48", {driver_call, base, 20 * gb, 0, 1, 1}, 17.4, "pegaflow#277, 48 cores"},

    {"pegaflow-wc", {driver_call, base, 30 * gib, 0, 1, 1}, 15.68, "pegaflow#275"},

    {"mori", {register_resident, base, 512 * gib, 0, 1, 1}, 98.5, "mori#679, HIP, MI355X"},
    {"mori", {register_resident, base, 1500 * gb, 0, 1, 1}, 242.4, "mori#679, HIP"},
    {"mori", {register_resident, thp, 512 * gib, 0, 1, 1}, 36.4, "mori#679, HIP"},
    {"mori", {register_resident, thp, 1500 * gb, 0, 1, 1}, 98.2, "mori#679, HIP"},

    {"vllm-shm", {register_resident, base, 512 * gib, 0, 1, 1}, 55.4, "vllm#51080, prefaulted"},

    // Too fast for memory that the call had to fault, so it was resident.
    {"vllm-94", {register_resident, base, 94 * gb, gb, 1, 1}, 17.4, "vllm#51414, 1 GB chunks"},
    {"vllm-94", {register_resident, base, 94 * gb, 0, 1, 1}, 11.6, "vllm#51414, one call"},

    {"trt-llm", {driver_call, base, 700 * gb, 0, 1, 1}, 720, "TensorRT-LLM#17429, about 12 min"},
};

}  // namespace published

[[nodiscard]] inline std::vector<measured_point> published_points() {
  return {std::begin(published::points), std::end(published::points)};
}

}  // namespace numapool::bench
