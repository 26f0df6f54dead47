// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes, times and numbers as people type and read them.
// Every reader throws usage_error with a sentence that names the text. Threads: safe.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace numapool::cli {

/// Bytes: "4096", "64KiB", "1.5GiB", "2GB". Binary units (KiB, MiB, ... EiB) are powers of 1024,
/// decimal ones (kB, MB,
/// ... EB) powers of 1000; case does not matter and the B of a binary unit may be left out. "64K"
/// is refused, since it could be either; so is what is not a whole number of bytes, and what does
/// not fit std::size_t.
[[nodiscard]] std::size_t parse_size(std::string_view text);

/// Seconds with at most three decimals: "20", "0.5". Up to 10^9.
[[nodiscard]] std::chrono::milliseconds parse_seconds(std::string_view text);

/// A whole number from `least` to `most`.
[[nodiscard]] std::uint64_t parse_whole(std::string_view text, std::uint64_t least, std::uint64_t most);

/// "256 MiB", "15.6 GiB", "4095 B": at most one decimal.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// "0x7f0000200000".
[[nodiscard]] std::string format_address(std::uintptr_t address);

/// With `decimals` digits after the point, never in exponent form.
[[nodiscard]] std::string format_fixed(double value, int decimals);

}  // namespace numapool::cli
