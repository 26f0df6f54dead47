// SPDX-License-Identifier: Apache-2.0
#pragma once

// What must hold of an allocation during which one call failed: a typed error that names the step
// and the call's answer, or a buffer that says what it went without.

#include <cerrno>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <numapool/buffer.hpp>
#include <numapool/worker_pool.hpp>

#include "support/fault_injector.hpp"

namespace numapool::test {

/// A read that failed has no answer to hand on: one bad file spoils one fact, and the fact is what
/// is then missing.
inline bool is_a_read(seam_call call) {
  return call == seam_call::read_text || call == seam_call::list_directory;
}

inline void expect_typed(const failure& why, const boost::system::error_code& injected,
                         seam_call hit) {
  EXPECT_EQ(&why.code.category(), &error_category()) << hit;
  EXPECT_NE(why.operation, operation::none) << hit;
  EXPECT_FALSE(why.message.empty()) << hit;
  if (!is_a_read(hit)) {
    EXPECT_EQ(why.cause, injected) << hit << ": " << why.message;
  }
}

/// `threads` is the entry of the node whose workers made it.
inline void expect_degradation_is_named(const buffer& made, const node_stats& threads,
                                        const boost::system::error_code& injected, seam_call hit) {
  switch (hit) {
    case seam_call::bind:
      EXPECT_EQ(made.policy().error, injected);
      EXPECT_FALSE(made.policy().reason.empty());
      break;
    case seam_call::lock_on_fault:
    case seam_call::probe:
    case seam_call::register_range:
      EXPECT_EQ(made.pin().error, injected);
      EXPECT_FALSE(made.pin().reason.empty());
      break;
    case seam_call::advise_huge_pages:
      EXPECT_FALSE(made.pages().reason.empty());
      break;
    case seam_call::advise_dont_fork:
      EXPECT_FALSE(made.pages().is_kept_from_children);
      EXPECT_FALSE(made.pages().reason.empty());
      break;
    case seam_call::query_nodes:
    case seam_call::query_node:
      EXPECT_EQ(made.placement().error, injected);
      break;
    case seam_call::start_thread:
    case seam_call::get_affinity:
      EXPECT_EQ(threads.start_error, injected);
      break;
    case seam_call::populate_write:
      EXPECT_TRUE(injected.value() == EINVAL || injected.value() == EPERM)
          << "as kernels before 5.14 and sandboxes answer: the pages were touched instead";
      break;
    // Another source or a later look makes up for these, so that nothing is lost: the next witness
    // of the page kind, the next file, the look at what was obtained, and any device where none was
    // asked for.
    case seam_call::read_text:
    case seam_call::list_directory:
    case seam_call::get_process_affinity:
    case seam_call::use_default_memory_policy:
    case seam_call::advise_no_huge_pages:
    case seam_call::scan_huge_bytes:
    case seam_call::read_huge_bytes:
    case seam_call::pci_address:
    case seam_call::active_devices:
    case seam_call::dont_need:  // and what is not given back in pieces is unmapped at once
    // These come after the buffer was delivered: they are counted as release failures instead.
    case seam_call::unmap:
    case seam_call::unregister_range:
      break;
    default:
      ADD_FAILURE() << hit << " failed, and the handle does not say what that cost";
  }
}

inline bool is_a_release(seam_call call) {
  return call == seam_call::unmap || call == seam_call::unregister_range;
}

}  // namespace numapool::test
