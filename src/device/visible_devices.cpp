// SPDX-License-Identifier: Apache-2.0
#include "device/visible_devices.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "base/text.hpp"

namespace numapool::device {
namespace {

constexpr const char* order_reason =
    "the GPUs are not all one model, and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA then counts the "
    "fastest first, by a rule of its own";

/// The same for two entries that show the same device.
std::string key_of_index(std::uint64_t index) {
  return "#" + std::to_string(index);
}

class reader {
 public:
  reader(std::string_view device_order, const known_gpus& known)
      : known_(known),
        order_is_known_(base::trimmed(device_order) == "PCI_BUS_ID" || is_one_model(known)) {}

  visible_list read(std::string_view text) {
    if (base::trimmed(text).empty()) {
      return none("CUDA_VISIBLE_DEVICES is empty, which hides every GPU");
    }
    for (const std::string_view part : base::split(text, ',')) {
      const std::string_view entry = base::trimmed(part);
      if (!add(entry)) {
        break;
      }
      if (has_duplicate_) {
        return none("CUDA_VISIBLE_DEVICES names " + base::quoted(entry) +
                    " twice, which hides every GPU");
      }
    }
    return std::move(list_);
  }

  visible_list read_all() {
    for (std::size_t index = 0; index < known_.gpus.size() && add_index(index); ++index) {
    }
    list_.is_certain = known_.is_complete;
    list_.end.clear();  // it speaks of the variable, which is not set
    return std::move(list_);
  }

 private:
  static bool is_one_model(const known_gpus& known) {
    return known.is_complete && !known.gpus.empty() &&
           std::all_of(known.gpus.begin(), known.gpus.end(), [&known](const known_gpu& gpu) {
             return known.gpus.size() == 1 ||
                    (!gpu.model.empty() && gpu.model == known.gpus.front().model);
           });
  }

  static visible_list none(std::string why) {
    visible_list list;
    list.end = std::move(why);
    return list;
  }

  /// False where the list ends before this entry.
  bool add(std::string_view entry) {
    if (is_gpu_id(entry)) {
      return add_id(entry);
    }
    const auto index = base::parse_unsigned(entry);
    if (!index || (known_.is_complete && *index >= known_.gpus.size())) {
      return end_at(entry, "is no GPU of this machine");
    }
    return add_index(*index);
  }

  bool end_at(std::string_view entry, const std::string& why) {
    list_.end = "CUDA_VISIBLE_DEVICES is read up to " + base::quoted(entry) + ", which " + why;
    return false;
  }

  bool add_index(std::uint64_t index) {
    visible_device device;
    if (!known_.is_complete) {
      device.reason = "nothing here lists the machine's GPUs";
    } else if (!order_is_known_) {
      device.reason = order_reason;
    } else {
      return add_known(static_cast<std::size_t>(index), {}, key_of_index(index));
    }
    return append(std::move(device), key_of_index(index));
  }

  bool add_id(std::string_view id) {
    if (!known_.has_ids) {
      visible_device device;
      device.uuid = id;
      device.reason = "GPU ids are NVML's to tell: " + known_.without_ids;
      return append(std::move(device), std::string(id));
    }
    const std::vector<id_match> matches = match_gpu_id(id, known_);
    if (matches.size() != 1) {
      return end_at(id, matches.empty() ? "is no GPU of this machine" : "names several");
    }
    const id_match& match = matches.front();
    // A GPU that is named by index and by id is one device; of an instance the id is its own name.
    const bool is_whole_gpu = match.uuid == known_.gpus[match.gpu].uuid;
    const std::string key = is_whole_gpu && order_is_known_ ? key_of_index(match.gpu) : match.uuid;
    return add_known(match.gpu, is_whole_gpu ? std::string() : match.uuid, key);
  }

  /// A GPU cut into instances is its first one: CUDA shows no more than one instance in all.
  bool add_known(std::size_t index, const std::string& mig_uuid, const std::string& key) {
    const known_gpu& gpu = known_.gpus[index];
    visible_device device;
    device.address = gpu.address;
    const bool is_instance = !mig_uuid.empty() || !gpu.mig_uuids.empty();
    device.uuid = !mig_uuid.empty() ? mig_uuid : is_instance ? gpu.mig_uuids.front() : gpu.uuid;
    if (is_instance && has_instance_ && !seen_.contains(key)) {
      return end_at(device.uuid, "is a second MIG instance: CUDA shows one");
    }
    has_instance_ = has_instance_ || is_instance;
    return append(std::move(device), key);
  }

  bool append(visible_device device, const std::string& key) {
    has_duplicate_ = !seen_.insert(key).second;
    list_.devices.push_back(std::move(device));
    return true;
  }

  const known_gpus& known_;
  const bool order_is_known_;
  visible_list list_;
  std::set<std::string> seen_;
  bool has_instance_ = false;
  bool has_duplicate_ = false;
};

}  // namespace

visible_list read_visible_devices(std::optional<std::string_view> text,
                                  std::string_view device_order, const known_gpus& known) {
  reader one(device_order, known);
  return text ? one.read(*text) : one.read_all();
}

}  // namespace numapool::device
