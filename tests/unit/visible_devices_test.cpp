// SPDX-License-Identifier: Apache-2.0

// Goal: CUDA_VISIBLE_DEVICES means what CUDA's documentation says, and the readings of dynamo and
// of NeMo-RL, which differ from it, are known beside it.
// Method: one table. Each row is a text, the GPUs of the machine, what CUDA shows, and what the
// other two take as the device of one ordinal. GPUs are named by their place in PCI order; "?" is a
// device that is visible while nothing says which GPU it is.

#include "device/visible_devices.hpp"

#include <cctype>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/dynamo_compat.hpp"

namespace numapool::device {
namespace {

using testing::HasSubstr;

const std::string uuid_0 = "GPU-8f3c1111-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string uuid_1 = "GPU-8f3c2222-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string uuid_2 = "GPU-12ab3333-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string uuid_3 = "GPU-d00d4444-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string mig_a = "MIG-5e5e0001-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string mig_b = "MIG-5e5e0002-0a0a-1b1b-2c2c-3d3d3d3d3d3d";
const std::string mig_c = "MIG-77770003-0a0a-1b1b-2c2c-3d3d3d3d3d3d";

enum class gpus {
  four,    // of one model
  one,     // alone
  unlike,  // two models
  no_ids,  // four of one model, and no NVML
  mig,     // GPU 0 is cut into a and b, GPU 1 into c
  none,    // and all are known
  unseen,  // nothing lists them
};

known_gpu gpu_at(std::uint8_t bus, const std::string& uuid, const std::string& model = "0x2330") {
  return {pci_address{0, bus, 0, 0}, uuid, {}, model};
}

known_gpus machine_of(gpus which) {
  known_gpus known;
  known.is_complete = which != gpus::unseen;
  known.has_ids = which != gpus::unseen && which != gpus::no_ids;
  known.without_ids = "no NVML";
  switch (which) {
    case gpus::four:
      known.gpus = {gpu_at(0, uuid_0), gpu_at(1, uuid_1), gpu_at(2, uuid_2), gpu_at(3, uuid_3)};
      break;
    case gpus::no_ids:
      known.gpus = {gpu_at(0, ""), gpu_at(1, ""), gpu_at(2, ""), gpu_at(3, "")};
      break;
    case gpus::one:
      known.gpus = {gpu_at(0, uuid_0, "")};
      break;
    case gpus::unlike:
      known.gpus = {gpu_at(0, uuid_0), gpu_at(1, uuid_1, "0x1db6")};
      break;
    case gpus::mig:
      known.gpus = {gpu_at(0, uuid_0), gpu_at(1, uuid_1)};
      known.gpus[0].mig_uuids = {mig_a, mig_b};
      known.gpus[1].mig_uuids = {mig_c};
      break;
    case gpus::none:
    case gpus::unseen:
      break;
  }
  return known;
}

/// NeMo-RL's resolve_visible_gpu_id: element `local` of the list as Python's int() reads it; empty
/// where it is None.
std::string nemo_reading(const char* text, int local) {
  if (text == nullptr || *text == '\0' || local < 0) {
    return "";
  }
  std::vector<std::string> parts{""};
  for (const char* at = text; *at != '\0'; ++at) {
    if (*at == ',') {
      parts.emplace_back();
    } else {
      parts.back() += *at;
    }
  }
  if (static_cast<std::size_t>(local) >= parts.size()) {
    return "";
  }
  std::string part = parts[static_cast<std::size_t>(local)];
  while (!part.empty() && std::isspace(static_cast<unsigned char>(part.back())) != 0) {
    part.pop_back();
  }
  while (!part.empty() && std::isspace(static_cast<unsigned char>(part.front())) != 0) {
    part.erase(0, 1);
  }
  const bool is_negative = part.starts_with('-');
  const std::string digits = part.starts_with('+') || is_negative ? part.substr(1) : part;
  std::string value;
  bool was_digit = false;  // a single underscore may stand between two digits
  for (const char letter : digits) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!is_digit && (letter != '_' || !was_digit)) {
      return "";
    }
    was_digit = is_digit;
    value += is_digit ? std::string(1, letter) : std::string();
  }
  if (!was_digit) {
    return "";
  }
  return (is_negative ? "-" : "") + std::to_string(std::stoull(value));
}

/// "2 0", "?", "0/MIG-..."; "" for no device.
std::string shown(const visible_list& list) {
  std::string text;
  for (const visible_device& device : list.devices) {
    EXPECT_EQ(device.address.has_value(), device.reason.empty());
    text += text.empty() ? "" : " ";
    text += device.address ? std::to_string(int{device.address->bus}) : "?";
    text += device.uuid.starts_with("MIG-") ? "/" + device.uuid : "";
  }
  return text;
}

struct row {
  const char* text;  // null: not set
  gpus machine;
  std::string cuda;
  int ordinal;         // that the other two are asked about
  std::string dynamo;  // what it hands to nvidia-smi -i
  std::string nemo;    // "" is None
  const char* order = "";
};
void PrintTo(const row& one, std::ostream* stream) {
  *stream << (one.text == nullptr ? "(unset)" : "'" + std::string(one.text) + "'") << " on set "
          << static_cast<int>(one.machine) << " with order '" << one.order << "'";
}

const std::string two_ids = uuid_2 + "," + uuid_0;
const std::string id_and_index = uuid_2 + ",0";
const std::string same_twice = uuid_2 + "," + uuid_2;
const std::string same_by_both = uuid_2 + ",2";
const std::string prefix_twice = "GPU-12," + uuid_2;
const std::string upper_case = "GPU-8F3C1111-0A0A-1B1B-2C2C-3D3D3D3D3D3D";
const std::string without_prefix = uuid_0.substr(4);
const std::string too_long = uuid_0 + "0";
const std::string mig_ids = mig_b + "," + mig_c;
const std::string mig_twice = mig_b + "," + mig_b;
const std::string mig_and_gpu = mig_b + "," + uuid_1;
const std::string old_mig = "MIG-" + uuid_1 + "/1/0";
const std::string old_mig_short = "MIG-" + uuid_1 + "/1";
const std::string old_mig_letters = "MIG-" + uuid_1 + "/a/0";
const std::string old_mig_prefix = "MIG-GPU-8f3c2/1/0";

const std::vector<row> rows = {
    // Unset, empty and blank.
    {nullptr, gpus::four, "0 1 2 3", 2, "2", ""},
    {nullptr, gpus::one, "0", 0, "0", ""},
    {nullptr, gpus::none, "", 0, "0", ""},
    {nullptr, gpus::unseen, "", 1, "1", ""},
    {nullptr, gpus::no_ids, "0 1 2 3", 0, "0", ""},
    {nullptr, gpus::unlike, "? ?", 1, "1", ""},
    {nullptr, gpus::unlike, "0 1", 1, "1", "", "PCI_BUS_ID"},
    {nullptr, gpus::unlike, "? ?", 1, "1", "", "FASTEST_FIRST"},
    {"", gpus::four, "", 0, "0", ""},
    {"", gpus::unlike, "", 1, "1", ""},
    {" ", gpus::four, "", 0, "0", ""},
    {"\t\n", gpus::four, "", 3, "3", ""},
    {"", gpus::unseen, "", 0, "0", ""},
    // Indexes.
    {"0", gpus::four, "0", 0, "0", "0"},
    {"3", gpus::four, "3", 0, "3", "3"},
    {"2,1", gpus::four, "2 1", 0, "2", "2"},
    {"2,1", gpus::four, "2 1", 1, "1", "1"},
    {"3,2,1,0", gpus::four, "3 2 1 0", 3, "0", "0"},
    {"5", gpus::four, "", 0, "5", "5"},
    {"99", gpus::four, "", 0, "99", "99"},
    {"0,7,1", gpus::four, "0", 2, "1", "1"},
    {"1", gpus::one, "", 0, "1", "1"},
    {"0", gpus::none, "", 0, "0", "0"},
    {"1,0", gpus::no_ids, "1 0", 0, "1", "1"},
    {"4,5", gpus::unseen, "? ?", 1, "5", "5"},
    {"18446744073709551616", gpus::four, "", 0, "18446744073709551616", "18446744073709551615"},
    // Two unlike GPUs: CUDA counts the fastest first unless told otherwise.
    {"1", gpus::unlike, "?", 0, "1", "1"},
    {"1,0", gpus::unlike, "? ?", 1, "0", "0"},
    {"1", gpus::unlike, "1", 0, "1", "1", "PCI_BUS_ID"},
    {"1,0", gpus::unlike, "1 0", 1, "0", "0", "PCI_BUS_ID"},
    {"1", gpus::unlike, "?", 0, "1", "1", "pci_bus_id"},
    {"2", gpus::unlike, "", 0, "2", "2"},
    // The first invalid entry ends the list.
    {"-1", gpus::four, "", 0, "-1", "-1"},
    {"0,-1,2", gpus::four, "0", 2, "2", "2"},
    {"0,2,-1,1", gpus::four, "0 2", 3, "1", "1"},
    {"NoDevFiles", gpus::four, "", 0, "NoDevFiles", ""},
    {"0x1", gpus::four, "", 0, "0x1", ""},
    {"+3", gpus::four, "", 0, "+3", "3"},
    {"1_0", gpus::four, "", 0, "1_0", "10"},
    {"1.0", gpus::four, "", 0, "1.0", ""},
    {"4;5", gpus::four, "", 0, "4;5", ""},
    {"0 1", gpus::four, "", 0, "0 1", ""},
    {"all", gpus::four, "", 0, "all", ""},
    // Empty entries: CUDA ends there, dynamo drops them, NeMo-RL counts them.
    {"0,,1", gpus::four, "0", 1, "1", ""},
    {",0", gpus::four, "", 0, "0", ""},
    {"0,1,", gpus::four, "0 1", 2, "2", ""},
    {",", gpus::four, "", 0, "0", ""},
    {" , ,", gpus::four, "", 1, "1", ""},
    // Blanks round entries, zeros before digits.
    {" 2 , 3 ", gpus::four, "2 3", 1, "3", "3"},
    {"\t1\n", gpus::four, "1", 0, "1", "1"},
    {"07", gpus::four, "", 0, "07", "7"},
    {"03", gpus::four, "3", 0, "03", "3"},
    // A duplicate hides every GPU.
    {"3,3", gpus::four, "", 1, "3", "3"},
    {"0,1,0", gpus::four, "", 2, "0", "0"},
    {"0,-1,0", gpus::four, "0", 2, "0", "0"},
    {"1,1", gpus::unlike, "", 0, "1", "1"},
    {"2,02", gpus::four, "", 0, "2", "2"},
    {same_twice.c_str(), gpus::four, "", 0, uuid_2, ""},
    {same_by_both.c_str(), gpus::four, "", 1, "2", "2"},
    {prefix_twice.c_str(), gpus::four, "", 0, "GPU-12", ""},
    // Too few entries for the ordinal.
    {"2", gpus::four, "2", 1, "1", ""},
    {"2,1", gpus::four, "2 1", 7, "7", ""},
    // Ids of GPUs.
    {uuid_2.c_str(), gpus::four, "2", 0, uuid_2, ""},
    {two_ids.c_str(), gpus::four, "2 0", 1, uuid_0, ""},
    {id_and_index.c_str(), gpus::four, "2 0", 1, "0", "0"},
    {uuid_1.c_str(), gpus::unlike, "1", 0, uuid_1, ""},
    {uuid_3.c_str(), gpus::one, "", 0, uuid_3, ""},
    {"GPU-8f3c1", gpus::four, "0", 0, "GPU-8f3c1", ""},
    {"GPU-1", gpus::four, "2", 0, "GPU-1", ""},
    {"GPU-8f3c", gpus::four, "", 0, "GPU-8f3c", ""},
    {"GPU-8", gpus::one, "0", 0, "GPU-8", ""},
    {"GPU-", gpus::one, "", 0, "GPU-", ""},
    {"GPU", gpus::one, "", 0, "GPU", ""},
    {"GPU-ffff", gpus::four, "", 0, "GPU-ffff", ""},
    {"0,GPU-ffff,1", gpus::four, "0", 2, "1", "1"},
    {"GPU-abc,5", gpus::four, "", 1, "5", "5"},
    {upper_case.c_str(), gpus::four, "", 0, upper_case, ""},
    {without_prefix.c_str(), gpus::four, "", 0, without_prefix, ""},
    {too_long.c_str(), gpus::four, "", 0, too_long, ""},
    {uuid_2.c_str(), gpus::no_ids, "?", 0, uuid_2, ""},
    {id_and_index.c_str(), gpus::no_ids, "? 0", 1, "0", "0"},
    {same_twice.c_str(), gpus::no_ids, "", 0, uuid_2, ""},
    // MIG: one instance in all, which stands on its GPU.
    {nullptr, gpus::mig, "0/" + mig_a, 0, "0", ""},
    {"0", gpus::mig, "0/" + mig_a, 0, "0", "0"},
    {"1", gpus::mig, "1/" + mig_c, 0, "1", "1"},
    {"0,1", gpus::mig, "0/" + mig_a, 1, "1", "1"},
    {mig_b.c_str(), gpus::mig, "0/" + mig_b, 0, mig_b, ""},
    {mig_ids.c_str(), gpus::mig, "0/" + mig_b, 1, mig_c, ""},
    {mig_twice.c_str(), gpus::mig, "", 0, mig_b, ""},
    {mig_and_gpu.c_str(), gpus::mig, "0/" + mig_b, 1, uuid_1, ""},
    {"MIG-7", gpus::mig, "1/" + mig_c, 0, "MIG-7", ""},
    {"MIG-5e5e", gpus::mig, "", 0, "MIG-5e5e", ""},
    {"MIG-x", gpus::mig, "", 0, "MIG-x", ""},
    {old_mig.c_str(), gpus::mig, "1/" + old_mig, 0, old_mig, ""},
    {old_mig_short.c_str(), gpus::mig, "", 0, old_mig_short, ""},
    {old_mig_letters.c_str(), gpus::mig, "", 0, old_mig_letters, ""},
    {old_mig_prefix.c_str(), gpus::mig, "", 0, old_mig_prefix, ""},
    {mig_b.c_str(), gpus::four, "", 0, mig_b, ""},
    {mig_b.c_str(), gpus::no_ids, "?/" + mig_b, 0, mig_b, ""},
};

class VisibleDevices : public testing::TestWithParam<row> {};
INSTANTIATE_TEST_SUITE_P(Table, VisibleDevices, testing::ValuesIn(rows));

TEST_P(VisibleDevices, MeanWhatEachReaderTakesThemFor) {
  const row& one = GetParam();
  const auto text = one.text == nullptr ? std::optional<std::string_view>()
                                        : std::optional<std::string_view>(one.text);
  EXPECT_EQ(shown(read_visible_devices(text, one.order, machine_of(one.machine))), one.cuda);
  EXPECT_EQ(dynamo_id_of(text, static_cast<std::uint32_t>(one.ordinal)), one.dynamo);
  if (std::string_view(one.text == nullptr ? "" : one.text).size() < 20) {
    EXPECT_EQ(nemo_reading(one.text, one.ordinal), one.nemo);
  }
}

TEST(VisibleDevicesTable, HasTheRowsThatWereAskedFor) {
  EXPECT_GE(rows.size(), 60U);
}

TEST(VisibleDevicesReason, NamesTheEntryThatEndedTheList) {
  const known_gpus four = machine_of(gpus::four);
  EXPECT_THAT(read_visible_devices("0,-1,2", "", four).end, HasSubstr("'-1', which is no GPU"));
  EXPECT_THAT(read_visible_devices("GPU-8f", "", four).end, HasSubstr("names several"));
  EXPECT_THAT(read_visible_devices("3,3", "", four).end, HasSubstr("'3' twice"));
  EXPECT_THAT(read_visible_devices("", "", four).end, HasSubstr("empty"));
  EXPECT_EQ(read_visible_devices("0,1", "", four).end, "");
}

TEST(VisibleDevicesReason, SaysWhyAnEntryCannotBePlaced) {
  const auto reason = [](gpus which, const char* text) {
    return read_visible_devices(text, "", machine_of(which)).devices.at(0).reason;
  };
  EXPECT_THAT(reason(gpus::unlike, "0"), HasSubstr("CUDA_DEVICE_ORDER is not PCI_BUS_ID"));
  EXPECT_THAT(reason(gpus::no_ids, "GPU-8f3c1"), HasSubstr("no NVML"));
  EXPECT_THAT(reason(gpus::unseen, "0"), HasSubstr("nothing here lists"));
}

TEST(VisibleDevicesReason, OnlyAListThatNobodyKnowsIsUncertain) {
  EXPECT_FALSE(read_visible_devices(std::nullopt, "", machine_of(gpus::unseen)).is_certain);
  EXPECT_TRUE(read_visible_devices(std::nullopt, "", machine_of(gpus::none)).is_certain);
  EXPECT_TRUE(read_visible_devices("0", "", machine_of(gpus::unseen)).is_certain);
}

TEST(VisibleDevicesReason, IdsAreInFullWhereTheyAreKnown) {
  const auto list = read_visible_devices("GPU-8f3c1,3", "", machine_of(gpus::four));
  ASSERT_EQ(list.devices.size(), 2U);
  EXPECT_EQ(list.devices[0].uuid, uuid_0);
  EXPECT_EQ(list.devices[1].uuid, uuid_3);
}

// NeMo-RL's own cases, so that the column above can be believed.
TEST(NemoReading, IsPythonsInt) {
  EXPECT_EQ(nemo_reading(" 4 , 5 ", 1), "5");
  EXPECT_EQ(nemo_reading("GPU-abc,5", 1), "5");
  EXPECT_EQ(nemo_reading("4,5,", 2), "");
  EXPECT_EQ(nemo_reading("+3", 0), "3");
  EXPECT_EQ(nemo_reading("07", 0), "7");
  EXPECT_EQ(nemo_reading("-1", 0), "-1");
  EXPECT_EQ(nemo_reading("1_0", 0), "10");
  EXPECT_EQ(nemo_reading("1__0", 0), "");
  EXPECT_EQ(nemo_reading("_1", 0), "");
  EXPECT_EQ(nemo_reading("1_", 0), "");
  EXPECT_EQ(nemo_reading("4,5", -1), "");
  EXPECT_EQ(nemo_reading("99", 0), "99");
}

}  // namespace
}  // namespace numapool::device
