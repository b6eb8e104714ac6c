#include "mount_namespace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tiny_data.h"

namespace tern {
namespace {

std::string refused(const std::string& what) {
  return what + " is refused here: " + std::generic_category().message(errno);
}

// A user who is not root may mount in a user namespace, where everybody else is nobody.
bool enter_as_user() {
  const std::string user = std::to_string(getuid());
  const std::string group = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", user + " " + user + " 1");
  write_text("/proc/self/gid_map", group + " " + group + " 1");
  return true;
}

bool mount_or_complain(const char* what, const std::filesystem::path& folder, const char* type,
                       unsigned long flags, const char* options) {
  const bool is_mounted = mount(what, folder.c_str(), type, flags, options) == 0;
  EXPECT_TRUE(is_mounted) << refused("mount on " + folder.string());
  return is_mounted;
}

}  // namespace

std::optional<std::string> enter_mount_namespace() {
  if (unshare(CLONE_NEWNS) != 0 && !enter_as_user()) return refused("a mount namespace");
  // Else what is mounted here would be seen outside as well.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return refused("a mount of one's own");
  }
  ScratchFolder trial;
  if (mount("tmpfs", trial.path().c_str(), "tmpfs", 0, "size=64k") != 0) return refused("tmpfs");
  umount2(trial.path().c_str(), MNT_DETACH);
  return std::nullopt;
}

SmallDisk::SmallDisk(std::filesystem::path folder, int64_t size_bytes)
    : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  const std::string options = "mode=755,size=" + std::to_string(size_bytes);
  mount_or_complain("tmpfs", folder_, "tmpfs", 0, options.c_str());
}

SmallDisk::~SmallDisk() {
  if (is_read_only_) make_writable_again();
  EXPECT_EQ(umount2(folder_.c_str(), MNT_DETACH), 0);
}

void SmallDisk::fill() {
  const int fd = open(filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_GE(fd, 0) << refused("a file on the small disk");
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  EXPECT_EQ(errno, ENOSPC);
  close(fd);
}

void SmallDisk::free_again() { std::filesystem::remove(filler()); }

void SmallDisk::make_read_only() {
  const char* self = folder_.c_str();
  is_read_only_ = mount_or_complain(self, folder_, nullptr, MS_BIND, nullptr);
  if (is_read_only_) {
    mount_or_complain(nullptr, folder_, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr);
  }
}

void SmallDisk::make_writable_again() {
  EXPECT_EQ(umount2(folder_.c_str(), MNT_DETACH), 0);
  is_read_only_ = false;
}

}  // namespace tern
