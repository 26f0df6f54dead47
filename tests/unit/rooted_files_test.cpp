// SPDX-License-Identifier: Apache-2.0
// Goal: a recorded machine reads as itself, whatever its tree holds: nothing outside it is read,
// and nothing in it holds the reader.
// Method: trees with the links, FIFOs and sizes that were seen to lead out or to hang, read by the
// real files. Each would read this machine, or never end, if it failed.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "platform/platform.hpp"
#include "support/temporary_folder.hpp"

namespace numapool::platform {
namespace {

namespace fs = std::filesystem;

class RootedFiles : public testing::Test {
 protected:
  RootedFiles() {
    fs::create_directories(root_ + "/sys/folder");
    put("/sys/folder/file", "inside\n");
  }
  void put(const std::string& path, const std::string& text) {
    std::ofstream(root_ + path) << text;
  }
  void link(const std::string& path, const std::string& target) {
    fs::create_symlink(target, root_ + path);
  }
  std::string read(const std::string& path) {
    std::string text = "unchanged";
    error_ = files_->read_text(path, text).value();
    return text;
  }

  const tests::temporary_folder folder_;
  const std::string root_ = folder_.path() + "/machine";
  const std::unique_ptr<files> files_ = files_below(root_);
  int error_ = 0;
};

TEST_F(RootedFiles, AreReadAndListed) {
  EXPECT_EQ(read("/sys/folder/file"), "inside\n");
  EXPECT_EQ(read("//sys/./folder//file"), "inside\n");
  std::vector<std::string> names;
  EXPECT_FALSE(files_->list_directory("/sys", names));
  EXPECT_EQ(names, std::vector<std::string>{"folder"});
  EXPECT_EQ(files_->list_directory("/sys/folder/file", names).value(), ENOTDIR);
  EXPECT_EQ(files_->list_directory("/sys/none", names).value(), ENOENT);
  EXPECT_EQ(names, std::vector<std::string>{"folder"});
  EXPECT_FALSE(files_->is_this_machine());
}

TEST_F(RootedFiles, FollowLinksAsTheMachineItselfWould) {
  fs::create_directories(root_ + "/sys/bus/devices");
  link("/sys/bus/devices/0", "../../folder");
  link("/absolute", "/sys/folder/file");
  link("/chain", "absolute");
  EXPECT_EQ(read("/sys/bus/devices/0/file"), "inside\n");
  EXPECT_EQ(read("/chain"), "inside\n");
  std::vector<std::string> names;
  EXPECT_FALSE(files_->list_directory("/sys/bus/devices/0", names));
  EXPECT_EQ(names, std::vector<std::string>{"file"});
}

TEST_F(RootedFiles, NeverLeaveTheRoot) {
  std::ofstream(folder_.path() + "/outside") << "outside\n";
  EXPECT_EQ(read("/../outside"), "unchanged");
  EXPECT_EQ(error_, ENOENT);
  link("/up", "../outside");
  EXPECT_EQ(read("/up"), "unchanged");
  link("/far", "../../../../../../../../../../proc/self/status");
  EXPECT_EQ(read("/far"), "unchanged");
  link("/away", folder_.path() + "/outside");
  EXPECT_EQ(read("/away"), "unchanged");
  link("/proc", "/proc");  // a loop, inside
  EXPECT_EQ(read("/proc/self/status"), "unchanged");
  EXPECT_EQ(error_, ELOOP);
  link("/everything", "/");
  EXPECT_EQ(read("/everything/sys/folder/file"), "inside\n");
  EXPECT_EQ(read("/everything/etc/passwd"), "unchanged");
}

TEST_F(RootedFiles, AreFilesAndNothingElse) {
  ASSERT_EQ(::mkfifo((root_ + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(read("/fifo"), "unchanged");
  EXPECT_EQ(error_, EINVAL);
  EXPECT_EQ(read("/fifo/below"), "unchanged");
  EXPECT_EQ(error_, ENOTDIR);
  if (::mknod((root_ + "/zero").c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0) {  // root alone may
    EXPECT_EQ(read("/zero"), "unchanged");
    EXPECT_EQ(error_, EINVAL);
  }
  EXPECT_EQ(read("/sys/folder"), "unchanged");
  EXPECT_EQ(error_, EISDIR);
}

TEST_F(RootedFiles, OfAnySizeEnd) {
  put("/large", "x");
  fs::resize_file(root_ + "/large", std::uintmax_t{1} << 40U);  // a hole: no disk is needed
  EXPECT_EQ(read("/large"), "unchanged");
  EXPECT_EQ(error_, EFBIG);
}

TEST_F(RootedFiles, WithoutARootAreNotThere) {
  const auto nowhere = files_below(root_ + "/none");
  std::string text;
  EXPECT_EQ(nowhere->read_text("/sys/folder/file", text).value(), ENOENT);
}

}  // namespace
}  // namespace numapool::platform
