// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "device/visible_devices.hpp"

namespace numapool::device {
namespace {

constexpr std::string_view gpu_prefix = "GPU-";
constexpr std::string_view mig_prefix = "MIG-";
constexpr std::string_view old_mig_prefix = "MIG-GPU-";

void add_match(std::string_view id, const std::string& uuid, std::size_t gpu,
               std::vector<id_match>& matches) {
  if (std::string_view(uuid).starts_with(id)) {
    matches.push_back({gpu, uuid});
  }
}

/// "MIG-GPU-<uuid>/3/0", as drivers before r470 name instances.
std::vector<id_match> match_old_mig_id(std::string_view id, const known_gpus& known) {
  const std::vector<std::string_view> parts = base::split(id, '/');
  if (parts.size() != 3 || !base::parse_unsigned(parts[1]) || !base::parse_unsigned(parts[2])) {
    return {};
  }
  const std::string_view uuid = parts[0].substr(mig_prefix.size());
  for (std::size_t gpu = 0; gpu < known.gpus.size(); ++gpu) {
    if (known.gpus[gpu].uuid == uuid) {
      return {{gpu, std::string(id)}};
    }
  }
  return {};
}

}  // namespace

bool is_gpu_id(std::string_view text) noexcept {
  return text.starts_with(gpu_prefix) || text.starts_with(mig_prefix);
}

std::vector<id_match> match_gpu_id(std::string_view id, const known_gpus& known) {
  if (!is_gpu_id(id) || id.size() == gpu_prefix.size()) {
    return {};  // a prefix without a digit is no name, even where there is one GPU
  }
  if (id.starts_with(old_mig_prefix)) {
    return match_old_mig_id(id, known);
  }
  std::vector<id_match> matches;
  for (std::size_t gpu = 0; gpu < known.gpus.size(); ++gpu) {
    add_match(id, known.gpus[gpu].uuid, gpu, matches);
    for (const std::string& mig_uuid : known.gpus[gpu].mig_uuids) {
      add_match(id, mig_uuid, gpu, matches);
    }
  }
  for (const id_match& match : matches) {
    if (match.uuid == id) {
      return {match};
    }
  }
  return matches;
}

}  // namespace numapool::device
