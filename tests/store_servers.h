// Real servers of object stores and metadata, started by tests on loopback. scripts/fetch-servers
// installs them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "cloud/open_store.h"
#include "process.h"
#include "tiny_data.h"

namespace tern {

enum class ServerKind {
  versitygw,
  versitygw_as_aws,  // spoken to as AWS is: the bucket in the host's name, CRC-32C for the body
  azurite,
  fake_gcs,
  strict_gcs,       // ours, in Python: what fake_gcs is too kind to check
  s3rver,           // ignores create-only
  metadata_mock,    // EC2's: instance roles, notices
  strict_metadata,  // ours, in Python: notices of Google's and Azure's machines
  radosgw,          // Ceph's S3, of Debian's packages: only in the slow tier
};

// What a test's client is told: variables as a user sets them.
using Variables = std::map<std::string, std::string>;
CloudSurroundings surroundings_of(const Variables& variables, const std::filesystem::path& home);

// A running server with a scratch folder of its own. Owned by one test or one test program; ends
// with the object, and also when the test is killed. Blocks until it answers.
class StoreServer {
 public:
  struct Start {
    ServerKind kind = ServerKind::versitygw;
    // Where clients reach it, if that is not its own port but a proxy's.
    int front_port = 0;
    // More for the server: the metadata mock's file of answers.
    std::vector<std::string> arguments;
  };

  // Why it cannot be started here; empty if it can. A folder named by TERN_TEST_SERVERS must have
  // all of them but radosgw: there, nothing is missing by chance.
  static std::string missing(ServerKind kind);

  // REQUIRES: missing(start.kind).empty(). A server that does not come up fails the test.
  explicit StoreServer(const Start& start);

  ServerKind kind() const { return start_.kind; }
  int port() const { return port_; }
  std::string url() const;  // of the front port
  // s3://BUCKET, gs://BUCKET or az://ACCOUNT/BUCKET
  std::string address(const std::string& bucket) const;
  Variables variables() const;
  CloudSurroundings surroundings() const;
  const std::filesystem::path& folder() const { return scratch_.path(); }
  // What it has said on stderr, for a failed test.
  std::string said() const { return process_->err_so_far(); }

 private:
  Process::Start command() const;

  const Start start_;
  ScratchFolder scratch_;
  int port_ = 0;
  std::unique_ptr<Process> process_;
};

// The folder that TERN_TEST_SERVERS names, or where scripts/fetch-servers puts it.
std::filesystem::path servers_folder();
// A port of loopback that is free at this moment.
int free_port();

}  // namespace tern
