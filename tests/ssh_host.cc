#include "ssh_host.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tiny_data.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

void make_key(const fs::path& file) {
  const Finished made =
      run_to_end({.command = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file.string()}});
  EXPECT_EQ(made.exit_code, 0) << made.err << "install the package openssh-client";
}

}  // namespace

int unused_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

void make_user_key(const fs::path& keys) {
  fs::create_directories(keys);
  make_key(keys / "id");
}

SshHost::SshHost(fs::path folder, const fs::path& keys, const std::string& variables)
    : folder_(std::move(folder)), port_(unused_port()) {
  fs::create_directories(folder_);
  make_key(folder_ / "host_key");
  const std::string place = folder_.string();
  write_text(folder_ / "sshd_config",
             "Port " + std::to_string(port_) + "\nListenAddress 127.0.0.1\nHostKey " + place +
                 "/host_key\nAuthorizedKeysFile " + (keys / "id.pub").string() +
                 "\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
                 "SetEnv HOME=" +
                 place + " XDG_CACHE_HOME=" + place + "/cache XDG_STATE_HOME=" + place + "/state " +
                 variables + "\n");
  // Root's sshd wants it, and Debian's service makes it when it starts.
  std::error_code ignored;
  if (geteuid() == 0) fs::create_directories("/run/sshd", ignored);
  sshd_ = std::make_unique<Process>(Process::Start{
      .command = {"/usr/sbin/sshd", "-D", "-e", "-f", (folder_ / "sshd_config").string()}});
  EXPECT_TRUE(wait_until([this] {
    return sshd_->err_so_far().find("Server listening") != std::string::npos;
  })) << sshd_->err_so_far()
      << "install the package openssh-server";
}

std::string SshHost::known_host() const {
  const std::string key = read_text(folder_ / "host_key.pub");
  return "[127.0.0.1]:" + std::to_string(port_) + " " + key;
}

}  // namespace tern
