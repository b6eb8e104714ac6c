// Downloads from servers that are not ours: Python's, plain and with TLS.
#include <gmock/gmock.h>

#include "core/download.h"
#include "core/hash.h"
#include "core/test_python_server.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kFiles[] = R"(
class handler(http.server.SimpleHTTPRequestHandler):
    __init__ = functools.partialmethod(http.server.SimpleHTTPRequestHandler.__init__,
                                       directory=sys.argv[2] + "/served")
)";

class DownloadServersTest : public PythonServerTest {
 protected:
  void SetUp() override {
    PythonServerTest::SetUp();
    std::filesystem::create_directories(folder_ / "served");
    for (int64_t i = 0; i < 500'000; ++i) body_ += static_cast<char>(i * i / 11);
    std::ofstream(folder_ / "served/file", std::ios::binary) << body_;
  }

  DownloadSetup setup() {
    return {.url = url_ + "file",
            .file = folder_ / "file",
            .sha256 = to_hex(sha256(body_)),
            .clock = &clock_};
  }

  std::string body_;
  SimClock clock_;
};

TEST_F(DownloadServersTest, PythonsServerIsUnderstood) {
  start_server(kFiles);
  DownloadSetup how = setup();
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
  start_server(kFiles);
  DownloadSetup how = setup();
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
