// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of an allocation's steps share: asking, and the fake machine's own books.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/direct_allocation.hpp"

namespace numapool::memory {

using test::allocate;
using test::direct_options;
using test::fake_machine;
using test::fake_memory;
using test::gib;
using test::kib;
using test::machine_plan;
using test::mib;
using test::outcome;
using test::seam_call;
using testing::HasSubstr;
using testing::IsEmpty;

inline constexpr node_id node_0(0);
inline constexpr node_id node_1(1);
inline constexpr node_id node_2(2);

inline request ask(node_id node, std::size_t size_bytes = 4 * mib) {
  request what;
  what.size_bytes = size_bytes;
  what.node = node;
  return what;
}

// The fake's own books: how much of the buffer is on that node.
inline double share(fake_machine& machine, const buffer& held, node_id node) {
  const std::size_t all = held.mapped_bytes() / 4096;
  return static_cast<double>(machine.memory().pages_on(held.data(), held.mapped_bytes(), node)) /
         static_cast<double>(all);
}

inline void expect_nothing_left(fake_machine& machine) {
  EXPECT_EQ(machine.memory().mappings(), 0U);
  EXPECT_EQ(machine.memory().locked_bytes(), 0U);
  EXPECT_THAT(machine.registrar().registered(), IsEmpty());
}

inline void expect_refused(fake_machine& machine, const request& what, errc code, operation step,
                    const direct_options& options = {}) {
  const outcome done = allocate(machine, what, options);
  EXPECT_EQ(done.why.code, code) << done.why.message;
  EXPECT_EQ(done.why.operation, step) << done.why.message;
  EXPECT_FALSE(done.why.message.empty());
  EXPECT_FALSE(static_cast<bool>(done.result));
  expect_nothing_left(machine);
}

}  // namespace numapool::memory
