// A real sshd on loopback with keys and folders of its own: a machine, as far as ssh can tell.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "process.h"

namespace tern {

// Owned by one test. What logs in there has its state and its cache in `folder`, which stands for
// the machine's disk. The user is the one who runs the test. Ends with the object.
class SshHost {
 public:
  // `keys` holds the test's own key, which may log in. REQUIRES: make_user_key(keys).
  SshHost(std::filesystem::path folder, const std::filesystem::path& keys,
          const std::string& variables = "");

  int port() const { return port_; }
  const std::filesystem::path& folder() const { return folder_; }
  // Of known_hosts: "[127.0.0.1]:2222 ssh-ed25519 AAAA..."
  std::string known_host() const;
  void end() { sshd_.reset(); }

 private:
  const std::filesystem::path folder_;
  int port_ = 0;
  std::unique_ptr<Process> sshd_;
};

// Makes keys/id and keys/id.pub.
void make_user_key(const std::filesystem::path& keys);
// A port of loopback on which nothing listens at the moment.
int unused_port();

}  // namespace tern
