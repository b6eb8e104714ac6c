// A web server that is not ours for tests: Python's, on loopback, plain or with TLS.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace tern {

// Has a folder of its own for the test's files too. Skips its tests where there is no Python; ends
// the server with the test.
class PythonServerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "python_server_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    if (std::system("python3 -c 'import http.server, ssl' 2>/dev/null") != 0) {
      GTEST_SKIP() << "no python3 with ssl: no foreign server to talk to";
    }
  }
  void TearDown() override {
    if (server_ != nullptr) pclose(server_);
    std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  // Makes cert.pem and key.pem for 127.0.0.1; false without openssl's program.
  bool make_certificate() {
    return std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                        "-days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout " +
                        file("key.pem") + " -out " + file("cert.pem") + " 2>/dev/null")
                           .c_str()) == 0;
  }

  // `handler` is Python that defines it; sys.argv[2] is the folder. With TLS if there is a
  // certificate. Sets url_, which ends in a slash.
  void start_server(const std::string& handler) {
    std::ofstream(file("server.py")) << kBegin << handler << kEnd;
    ASSERT_EQ(mkfifo(file("port").c_str(), 0600), 0);
    const bool is_tls = std::filesystem::exists(file("cert.pem"));
    const std::string tls = is_tls ? " " + file("cert.pem") + " " + file("key.pem") : "";
    server_ = popen(("exec python3 " + file("server.py") + " " + file("port") + " " +
                     folder_.string() + tls + " >/dev/null 2>&1")
                        .c_str(),
                    "we");
    ASSERT_NE(server_, nullptr);
    int port = 0;
    std::ifstream(file("port")) >> port;
    ASSERT_GT(port, 0);
    url_ = (is_tls ? "https" : "http") + std::string("://127.0.0.1:") + std::to_string(port) + "/";
  }

  std::filesystem::path folder_;
  std::string url_;

 private:
  static constexpr char kBegin[] = "import functools, http.server, ssl, sys, threading\n";
  // Says its port in the named pipe, and ends with its standard input.
  static constexpr char kEnd[] = R"(
handler.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
if len(sys.argv) > 3:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(sys.argv[1], "w") as pipe:
    pipe.write(f"{server.server_port}\n")
sys.stdin.read()
)";

  std::FILE* server_ = nullptr;
};

}  // namespace tern
