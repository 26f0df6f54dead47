// SPDX-License-Identifier: Apache-2.0

// Goal: one device has one address however it is spelled.

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <numapool/device.hpp>
#include <numapool/error.hpp>

namespace numapool {
namespace {

TEST(PciAddress, SpellingsOfOneDeviceAreEqual) {
  const pci_address expected{0, 0x3b, 0, 0};
  for (const char* text : {"0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "3b:00", "0000:3b:00",
                           " 0000:3B:00.0\n", "0:3b:0.0"}) {
    EXPECT_EQ(pci_address::parse(text), expected) << text;
  }
  EXPECT_EQ(pci_address::parse("00000009:01:1f.7"), (pci_address{9, 1, 31, 7}));
  EXPECT_EQ(pci_address::parse("ffffffff:ff:1f.7"), (pci_address{0xffffffff, 255, 31, 7}));
}

TEST(PciAddress, PrintsAsSysfsNamesItsFolders) {
  std::ostringstream stream;
  stream << pci_address::parse("00000000:0F:00.0");
  EXPECT_EQ(stream.str(), "0000:0f:00.0");
  EXPECT_EQ(to_string(pci_address{0x10001, 1, 2, 3}), "10001:01:02.3");
  EXPECT_EQ(to_string(pci_address{0xffffffff, 255, 31, 7}), "ffffffff:ff:1f.7");
}

TEST(PciAddress, RejectsOtherText) {
  for (const char* text : {"", "3b", "0000:3b:00.8", "0000:3b:20.0", "0000:100:00.0", "0:0:0:0.0",
                           "000000000:3b:00.0", "0000:3b:00.", "0000:3b:.0", ":3b:00.0",
                           "0000:3g:00.0", "0000:3b:00.0.0", "GPU-1", "-1:00.0", "0000:3b:00 .0"}) {
    boost::system::error_code error;
    EXPECT_EQ(pci_address::parse(text, error), pci_address{}) << text;
    EXPECT_EQ(error, errc::malformed_list) << text;
  }
  try {
    static_cast<void>(pci_address::parse("0000:3b:20.0"));
    FAIL();
  } catch (const error& wrong) {
    EXPECT_NE(std::string(wrong.what()).find("'0000:3b:20.0'"), std::string::npos);
  }
}

TEST(PciAddress, OrdersAsNumbers) {
  EXPECT_LT(pci_address::parse("0000:3b:00.0"), pci_address::parse("0000:af:00.0"));
  EXPECT_LT(pci_address::parse("0000:ff:00.0"), pci_address::parse("0001:00:00.0"));
}

}  // namespace
}  // namespace numapool
