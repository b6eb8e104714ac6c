// Requests to web servers, many at once over kept connections, by libcurl's multi interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct HttpHeader {
  std::string name;
  std::string value;

  bool operator==(const HttpHeader&) const = default;
};

struct HttpRequest {
  std::string method = "GET";       // GET, HEAD, PUT, POST or DELETE
  std::string url;                  // http:// or https://, percent-encoded: sent to the byte
  std::vector<HttpHeader> headers;  // beside Host, Content-Length and User-Agent
  BytesView body;                   // must outlive the call; sent without a copy
  int64_t answer_bytes_max = int64_t{64} << 20;
  // Takes the body of a range (status 206) piece by piece as it arrives, so that nothing is
  // collected; `at` is a piece's place in it. On the thread that moves the bytes. An error ends the
  // exchange, with that.
  std::function<Status(int64_t at, BytesView piece)> on_range = nullptr;
};

struct HttpAnswer {
  int status = 0;
  std::vector<HttpHeader> headers;
  Bytes body;
  int64_t body_bytes = 0;  // that arrived: those of `body`, or those that on_range took

  // The first of that name, whatever its case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpOptions {
  int64_t connections_max = 64;  // at once; further calls wait for one of them
  Milliseconds connect_limit{10'000};
  // Without a byte in either direction; nor may an answer to GET or HEAD have less than 1 KB/s.
  Milliseconds stall_limit{30'000};
  std::string certificates;  // a file of certificates to trust; empty: the system's
  bool proxies = true;       // those of the environment; never to a metadata service
};

// Keeps its connections for the next calls. send() moves the bytes on the caller's thread; for
// what start() begins there is one thread more, made at the first of them. Safe from any thread;
// the destructor ends all that is under way as `cancelled`. Redirects are not followed (they are
// answers: a signature is for one address). GET and HEAD are sent again at once when a kept
// connection turns out to be closed; the others never, since they may have been carried out.
// Proxies are those of the environment, as libcurl reads them. Certificates are always verified.
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> create(const HttpOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One exchange under way. Destroying it unfinished cancels it: the request's body is not touched
  // any more. The client must outlive it.
  class Call {
   public:
    struct State;  // shared with the client's thread
    explicit Call(std::shared_ptr<State> state);
    ~Call();
    Call(Call&&) noexcept;
    Call& operator=(Call&&) noexcept;

    // Blocks. Any status is an answer, and none an error. `unavailable`: may work in a moment
    // (broken, cut, stalled, too slow, not resolved); `permission_denied`: a certificate that does
    // not verify; `invalid`: an address that is none; `exhausted`: an answer beyond
    // answer_bytes_max; `cancelled`: the client is being destroyed. At most once.
    Result<HttpAnswer> wait();
    // As wait(), but `cancelled` as soon as `stop` is requested, and `unavailable` when the limit
    // is over, whatever still moves. The call is then still under way, and ends with its object.
    Result<HttpAnswer> wait(const std::stop_token& stop, Milliseconds limit);

   private:
    std::shared_ptr<State> state_;
  };

  Call start(HttpRequest request);
  // As start() and wait(), for a third less processor time where bodies are small.
  Result<HttpAnswer> send(const HttpRequest& request);

 private:
  class Driver;
  explicit HttpClient(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

// Every byte but A-Z a-z 0-9 - . _ ~ as %XX; with keep_slashes '/' stays, as in a path.
std::string percent_encode(std::string_view text, bool keep_slashes = false);

// Whether it may be a token in a header: a blank or a line's end would begin something else.
bool is_header_text(std::string_view text);

}  // namespace tern
