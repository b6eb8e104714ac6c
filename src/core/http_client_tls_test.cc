// HttpClient against Python's server with TLS: certificates are verified, connections kept.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "core/http_client.h"
#include "core/test_python_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Sends back what it gets. The header says how many connections there have been.
constexpr char kEcho[] = R"(
class handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = 0
    def setup(self):
        handler.connections += 1
        super().setup()
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", len(body))
        self.send_header("x-connections", handler.connections)
        self.end_headers()
        self.wfile.write(body)
)";

class HttpClientTlsTest : public PythonServerTest {
 protected:
  void SetUp() override {
    PythonServerTest::SetUp();
    if (IsSkipped()) return;
    if (!make_certificate()) GTEST_SKIP() << "no openssl program: no certificate to refuse";
    start_server(kEcho);
  }

  // With this file of certificates.
  Result<HttpAnswer> put(const std::string& url, const std::string& certificates) {
    ASSIGN_OR_RETURN(const auto client, HttpClient::create({.certificates = certificates}));
    return client->send({.method = "PUT", .url = url, .body = "hello"});
  }
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
  std::filesystem::copy(file("cert.pem"), file("later.pem"));
  EXPECT_EQ((*client)->send(request).value_or({}).body, "hello");
  std::filesystem::remove(file("later.pem"));
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
