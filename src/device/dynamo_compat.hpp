// SPDX-License-Identifier: Apache-2.0
#pragma once

// dynamo's own way (dynamo-memory, E1 and E1b) from a device to a node, over what is asked.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <numapool/node.hpp>

#include "platform/programs.hpp"

namespace numapool::device {

/// cuda_device_id_to_nvidia_smi_id of the text of CUDA_VISIBLE_DEVICES.
[[nodiscard]] std::string dynamo_id_of(std::optional<std::string_view> visible,
                                       std::uint32_t ordinal);

/// get_device_numa_node, asking `programs` about that id.
[[nodiscard]] node_id dynamo_node_of(platform::programs* programs,
                                     std::optional<std::string_view> visible,
                                     std::uint32_t ordinal);

}  // namespace numapool::device
