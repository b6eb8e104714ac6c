#include "store_servers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAccessKey = "tern-tests";
constexpr const char* kSecretKey = "not-a-secret-of-anybody";
// Azurite takes accounts of our own; the key is base64 of "not-a-secret-of-anybody".
constexpr const char* kAzureAccount = "ternaccount";
constexpr const char* kAzureKey = "bm90LWEtc2VjcmV0LW9mLWFueWJvZHk=";

std::string variable_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string program_of(ServerKind kind) {
  switch (kind) {
    case ServerKind::versitygw:
    case ServerKind::versitygw_as_aws: return "versitygw";
    case ServerKind::azurite: return "azurite-blob";
    case ServerKind::fake_gcs: return "fake-gcs-server";
    case ServerKind::strict_gcs: return TERN_SOURCE_DIR "/tests/strict_gcs.py";
    case ServerKind::s3rver: return "s3rver";
    case ServerKind::metadata_mock: return "ec2-metadata-mock";
    case ServerKind::radosgw: return "/usr/bin/radosgw";
    case ServerKind::strict_metadata: return TERN_SOURCE_DIR "/tests/strict_metadata.py";
  }
  return "";
}

// An absolute name stays as it is.
fs::path path_of(ServerKind kind) { return servers_folder() / "bin" / program_of(kind); }

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool answers(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const int said = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(socket);
  return said == 0;
}

// Whether files can carry versitygw's metadata. In a folder of their own (--sidecar) an object is
// listed for a moment before it can be read, which no real S3 does.
bool has_attributes(const fs::path& folder) {
  return ::setxattr(folder.c_str(), "user.tern", "1", 1, 0) == 0;
}

// Whether the process has ended; it is left to be reaped by its owner.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

fs::path servers_folder() {
  const std::string cache =
      variable_or("XDG_CACHE_HOME", variable_or("HOME", "/nowhere") + "/.cache");
  return variable_or("TERN_TEST_SERVERS", cache + "/tern/servers-1");
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, plain, size), 0);
  EXPECT_EQ(::getsockname(socket, plain, &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

CloudSurroundings surroundings_of(const Variables& variables, const fs::path& home) {
  return {.variable = [variables](const std::string& name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
          },
          .home = home};
}

std::string StoreServer::missing(ServerKind kind) {
  if (kind == ServerKind::radosgw) {
    return fs::exists(path_of(kind)) ? "" : "no /usr/bin/radosgw (scripts/install-deps slow)";
  }
  if (fs::exists(path_of(kind)) || !variable_or("TERN_TEST_SERVERS", "").empty()) return "";
  return fmt::format("no {} in {} (scripts/fetch-servers)", program_of(kind),
                     servers_folder().string());
}

StoreServer::StoreServer(const Start& start) : start_(start) {
  // Somebody else may take the port between our finding it free and the server's using it.
  for (int attempt = 0; attempt < 3; ++attempt) {
    port_ = free_port();
    process_ = std::make_unique<Process>(command());
    bool ended = false;
    const bool up = wait_until([&] {
      ended = has_ended(process_->pid());
      return ended || answers(port_);
    });
    if (up && !ended) return;
  }
  ADD_FAILURE() << path_of(start_.kind) << " did not come up: " << said();
}

Process::Start StoreServer::command() const {
  const std::string port = std::to_string(port_);
  // The kernel ends the server with the test, however that ends.
  Process::Start start{.command = {"setpriv", "--pdeathsig", "KILL", "--"}, .folder = folder()};
  const auto add = [&](std::vector<std::string> words) {
    start.command.insert(start.command.end(), words.begin(), words.end());
  };
  if (start_.kind != ServerKind::radosgw) {
    if (path_of(start_.kind).extension() == ".py") add({"python3"});
    add({path_of(start_.kind).string()});
  }
  switch (start_.kind) {
    case ServerKind::versitygw:
    case ServerKind::versitygw_as_aws:
      fs::create_directory(folder() / "data");
      start.environment = {{"ROOT_ACCESS_KEY", kAccessKey}, {"ROOT_SECRET_KEY", kSecretKey}};
      add({"--port", "127.0.0.1:" + port, "--keep-alive", "--quiet"});
      if (start_.kind == ServerKind::versitygw_as_aws) add({"--virtual-domain", "localhost"});
      add({"posix"});
      if (!has_attributes(folder())) {
        fs::create_directory(folder() / "meta");
        add({"--sidecar", (folder() / "meta").string()});
      }
      add({(folder() / "data").string()});
      break;
    case ServerKind::azurite:
      start.environment = {{"AZURITE_ACCOUNTS", fmt::format("{}:{}", kAzureAccount, kAzureKey)}};
      add({"--blobHost", "127.0.0.1", "--blobPort", port, "--location", folder().string(),
           "--silent", "--skipApiVersionCheck", "--disableTelemetry"});
      break;
    case ServerKind::fake_gcs:
      add({"-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory",
           "-public-host", url().substr(7), "-external-url", url(), "-log-level", "error"});
      break;
    case ServerKind::strict_gcs:
      // Few names to a page, so that tests turn pages.
      add({"--port", port, "--page-size", "7", "--credentials", (folder() / "key.json").string()});
      break;
    case ServerKind::s3rver:
      add({"--directory", (folder() / "data").string(), "--address", "127.0.0.1", "--port", port,
           "--silent"});
      break;
    case ServerKind::metadata_mock:
      add({"--imdsv2", "--hostname", "127.0.0.1", "--port", port});
      break;
    case ServerKind::radosgw:
      start.environment = {{"ACCESS_KEY", kAccessKey}, {"SECRET_KEY", kSecretKey}};
      add({"bash", TERN_SOURCE_DIR "/tests/radosgw.sh", folder().string(), port,
           std::to_string(free_port())});
      break;
    case ServerKind::strict_metadata: add({"--port", port}); break;
  }
  add(start_.arguments);
  return start;
}

std::string StoreServer::url() const {
  return fmt::format("http://127.0.0.1:{}", start_.front_port > 0 ? start_.front_port : port_);
}

std::string StoreServer::address(const std::string& bucket) const {
  switch (start_.kind) {
    case ServerKind::azurite: return fmt::format("az://{}/{}", kAzureAccount, bucket);
    case ServerKind::fake_gcs:
    case ServerKind::strict_gcs: return "gs://" + bucket;
    default: return "s3://" + bucket;
  }
}

Variables StoreServer::variables() const {
  switch (start_.kind) {
    case ServerKind::azurite:
      return {{"AZURE_STORAGE_CONNECTION_STRING",
               fmt::format("DefaultEndpointsProtocol=http;AccountName={0};AccountKey={1};"
                           "BlobEndpoint={2}/{0};",
                           kAzureAccount, kAzureKey, url())}};
    case ServerKind::fake_gcs: return {{"STORAGE_EMULATOR_HOST", url()}};
    case ServerKind::strict_gcs:
      return {{"STORAGE_EMULATOR_HOST", url()},
              {"GOOGLE_APPLICATION_CREDENTIALS", (folder() / "key.json").string()}};
    case ServerKind::metadata_mock: return {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", url()}};
    case ServerKind::strict_metadata:
      return {{"GCE_METADATA_HOST", url().substr(7)}, {"TERN_AZURE_METADATA_ENDPOINT", url()}};
    case ServerKind::s3rver:
      return {{"AWS_ENDPOINT_URL", url()},
              {"AWS_ACCESS_KEY_ID", "S3RVER"},
              {"AWS_SECRET_ACCESS_KEY", "S3RVER"},
              {"AWS_REGION", "us-east-1"}};
    case ServerKind::versitygw_as_aws:
      return {{"AWS_ENDPOINT_URL", "http://localhost" + url().substr(url().rfind(':'))},
              {"AWS_ACCESS_KEY_ID", kAccessKey},
              {"AWS_SECRET_ACCESS_KEY", kSecretKey},
              {"AWS_REGION", "us-east-1"},
              {"AWS_S3_ADDRESSING_STYLE", "virtual"},
              {"AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported"}};
    case ServerKind::versitygw:
    case ServerKind::radosgw: break;
  }
  return {{"AWS_ENDPOINT_URL", url()},
          {"AWS_ACCESS_KEY_ID", kAccessKey},
          {"AWS_SECRET_ACCESS_KEY", kSecretKey},
          {"AWS_REGION", "us-east-1"}};
}

CloudSurroundings StoreServer::surroundings() const {
  return surroundings_of(variables(), folder());
}

}  // namespace tern
