// Downloads from servers that are not ours: Python's, plain and with TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "core/download.h"
#include "core/hash.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Serves its folder, says its port in the named pipe, and ends with its standard input.
constexpr char kServer[] = R"(
import functools, http.server, ssl, sys, threading
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
handler.func.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
if len(sys.argv) > 3:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(sys.argv[2], "w") as pipe:
    pipe.write(f"{server.server_port}\n")
sys.stdin.read()
)";

class DownloadServersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "download_servers_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    if (std::system("python3 -c 'import http.server, ssl' 2>/dev/null") != 0) {
      GTEST_SKIP() << "no python3 with ssl: no foreign server to fetch from";
    }
    fs::create_directories(folder_ / "served");
    for (int64_t i = 0; i < 500'000; ++i) body_ += static_cast<char>(i * i / 11);
    std::ofstream(folder_ / "served/file", std::ios::binary) << body_;
    std::ofstream(folder_ / "server.py") << kServer;
  }
  void TearDown() override {
    if (server_ != nullptr) pclose(server_);
    fs::remove_all(folder_);
  }

  void start_server(const std::string& more = "") {
    const std::string pipe = (folder_ / "port").string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const std::string folder = folder_.string();
    server_ = popen(("exec python3 " + folder + "/server.py " + folder + "/served " + pipe + more +
                     " >/dev/null 2>&1")
                        .c_str(),
                    "we");
    ASSERT_NE(server_, nullptr);
    std::ifstream(pipe) >> port_;
    ASSERT_GT(port_, 0);
  }

  // Makes cert.pem and key.pem; false without openssl's program.
  bool make_certificate() {
    const std::string folder = folder_.string();
    return std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                        "-days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout " +
                        folder + "/key.pem -out " + folder + "/cert.pem 2>/dev/null")
                           .c_str()) == 0;
  }

  DownloadSetup setup(const std::string& scheme) {
    return {.url = scheme + "://127.0.0.1:" + std::to_string(port_) + "/file",
            .file = folder_ / "file",
            .sha256 = to_hex(sha256(body_)),
            .clock = &clock_};
  }

  fs::path folder_;
  std::string body_;
  SimClock clock_;
  std::FILE* server_ = nullptr;
  int port_ = 0;
};

TEST_F(DownloadServersTest, PythonsServerIsUnderstood) {
  start_server();
  DownloadSetup how = setup("http");
  EXPECT_EQ(download_bytes(how.url).value_or(-1), 500'000);
  // It knows no ranges, so this part is read anew.
  std::ofstream(folder_ / "file.part") << "something";
  std::ofstream(folder_ / "file.part.etag") << "Wed, 21 Oct 2015 07:28:00 GMT";
  const Status got = download(how);
  ASSERT_TRUE(got) << got.error().message;
  how.url += "-that-is-not-there";
  EXPECT_EQ(download(how).error().code, Code::not_found);
}

TEST_F(DownloadServersTest, ACertificateIsTrustedOnlyIfItIsGiven) {
  if (!make_certificate()) GTEST_SKIP() << "no openssl program: no certificate to refuse";
  start_server(" " + (folder_ / "cert.pem").string() + " " + (folder_ / "key.pem").string());
  DownloadSetup how = setup("https");
  int retries = 0;
  how.on_retry = [&](const Error&, Nanoseconds) { ++retries; };
  const Status refused = download(how);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied) << refused.error().message;
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("does not verify"), HasSubstr("self"), HasSubstr("SSL_CERT_FILE")));
  EXPECT_EQ(retries, 0);
  EXPECT_EQ(download_bytes(how.url).error().code, Code::permission_denied);

  how.certificates = folder_ / "cert.pem";
  const Status got = download(how);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(download_bytes(how.url, how.certificates).value_or(-1), 500'000);
  how.certificates = folder_ / "none.pem";
  EXPECT_EQ(download(how).error().code, Code::invalid);
  how.certificates = folder_ / "cert.pem";
  how.url.replace(how.url.find("127.0.0.1"), 9, "localhost");  // not what the certificate is for
  EXPECT_EQ(download(how).error().code, Code::permission_denied);
}

}  // namespace
}  // namespace tern
