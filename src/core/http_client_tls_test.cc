// HttpClient against Python's server with TLS: certificates are verified, connections kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/http_client.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Sends back what it gets, says its port in the named pipe, and ends with its standard input. The
// header says how many connections there have been.
constexpr char kServer[] = R"(
import http.server, ssl, sys, threading
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = 0
    def setup(self):
        Echo.connections += 1
        super().setup()
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", len(body))
        self.send_header("x-connections", Echo.connections)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(sys.argv[1], "w") as pipe:
    pipe.write(f"{server.server_port}\n")
sys.stdin.read()
)";

class HttpClientTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "http_client_tls_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    if (std::system("python3 -c 'import http.server, ssl' 2>/dev/null") != 0) {
      GTEST_SKIP() << "no python3 with ssl: no foreign server to talk to";
    }
    if (std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                     "-days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout " +
                     file("key.pem") + " -out " + file("cert.pem") + " 2>/dev/null")
                        .c_str()) != 0) {
      GTEST_SKIP() << "no openssl program: no certificate to refuse";
    }
    std::ofstream(file("server.py")) << kServer;
    ASSERT_EQ(mkfifo(file("port").c_str(), 0600), 0);
    server_ = popen(("exec python3 " + file("server.py") + " " + file("port") + " " +
                     file("cert.pem") + " " + file("key.pem") + " >/dev/null 2>&1")
                        .c_str(),
                    "we");
    ASSERT_NE(server_, nullptr);
    int port = 0;
    std::ifstream(file("port")) >> port;
    ASSERT_GT(port, 0);
    url_ = "https://127.0.0.1:" + std::to_string(port) + "/";
  }
  void TearDown() override {
    if (server_ != nullptr) pclose(server_);
    fs::remove_all(folder_);
  }

  std::string file(const char* name) const { return (folder_ / name).string(); }

  // With this file of certificates.
  Result<HttpAnswer> put(const std::string& url, const std::string& certificates) {
    ASSIGN_OR_RETURN(const auto client, HttpClient::create({.certificates = certificates}));
    return client->send({.method = "PUT", .url = url, .body = "hello"});
  }

  fs::path folder_;
  std::string url_;
  std::FILE* server_ = nullptr;
};

TEST_F(HttpClientTlsTest, ACertificateIsTrustedOnlyIfItIsGiven) {
  const Result<HttpAnswer> refused = put(url_, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied) << refused.error().message;
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("does not verify"), HasSubstr("SSL_CERT_FILE")));
  EXPECT_EQ(put(url_, file("cert.pem")).value_or({}).body, "hello");
  const Result<HttpAnswer> no_file = put(url_, file("none.pem"));
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().code, Code::invalid) << no_file.error().message;
  std::string other_name = url_;
  other_name.replace(other_name.find("127.0.0.1"), 9, "localhost");
  const Result<HttpAnswer> other = put(other_name, file("cert.pem"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::permission_denied) << other.error().message;
}

TEST_F(HttpClientTlsTest, ManyMegabytesComeBackOverOneConnection) {
  const auto client = HttpClient::create({.certificates = file("cert.pem")});
  ASSERT_TRUE(client);
  for (const size_t size : {0U, 70'000U, 5'000'000U}) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * i / 11);
    for (const bool starts : {false, true}) {
      const HttpRequest request{.method = "PUT", .url = url_, .body = body};
      const Result<HttpAnswer> answer =
          starts ? (*client)->start(request).wait() : (*client)->send(request);
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_TRUE(answer->body == body);
      EXPECT_EQ(answer->header("x-connections"), "1");
    }
  }
}

TEST_F(HttpClientTlsTest, CertificatesAreReadOnceForAllConnections) {
  const auto client = HttpClient::create({.certificates = file("later.pem")});
  ASSERT_TRUE(client);
  const HttpRequest request{.method = "PUT", .url = url_, .body = "hello"};
  const Result<HttpAnswer> too_early = (*client)->send(request);
  ASSERT_FALSE(too_early);
  EXPECT_EQ(too_early.error().code, Code::invalid) << too_early.error().message;
  EXPECT_THAT(too_early.error().message, AllOf(HasSubstr("later.pem"), HasSubstr("SSL_CERT_FILE")));
  fs::copy(file("cert.pem"), file("later.pem"));
  EXPECT_EQ((*client)->send(request).value_or({}).body, "hello");
  fs::remove(file("later.pem"));
  // Until one of them needed a new connection, as those that go at once do.
  int connections = 0;
  for (int round = 0; round < 100 && connections < 3; ++round) {
    std::vector<HttpClient::Call> calls;
    for (int i = 0; i < 8; ++i) calls.push_back((*client)->start(request));
    for (HttpClient::Call& call : calls) {
      const Result<HttpAnswer> answer = call.wait();
      ASSERT_TRUE(answer) << answer.error().message;
      connections = std::max(connections, std::stoi(std::string(answer->header("x-connections"))));
    }
  }
  EXPECT_GE(connections, 3);
}

// "http" where "https" is spoken.
TEST_F(HttpClientTlsTest, TheWrongSchemeIsUnavailable) {
  const std::string plain = "http" + url_.substr(5);
  const Result<HttpAnswer> answer = put(plain, file("cert.pem"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::unavailable);
}

}  // namespace
}  // namespace tern
