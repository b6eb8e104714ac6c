// One request to a web server, by libcurl's easy interface: the only file that sees libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

// Of a Content-Range header: "bytes 100-199/200", "bytes 100-199/*", "bytes */200".
struct ContentRange {
  int64_t first = -1;  // -1: no bytes are sent, as with status 416
  int64_t last = -1;
  int64_t total = -1;  // -1: the server does not say

  bool operator==(const ContentRange&) const = default;
};

// Nothing for what is not exactly one range of bytes, or has numbers that do not fit together.
std::optional<ContentRange> parse_content_range(BytesView value);

struct WebRequest {
  enum class Method { get, head };

  std::string url;  // https:// or http://
  Method method = Method::get;
  int64_t first_byte = 0;  // above 0: only what begins there is asked for
  std::string if_range;    // an ETag or a date: what changed since is asked for whole; empty: not
  Milliseconds stall_limit{30'000};
  std::string certificates;  // a file of certificates to trust; empty: the system's
};

// The last answer, after redirects.
struct WebAnswer {
  int status = 0;
  int64_t content_length = -1;  // -1: not said
  std::optional<ContentRange> content_range;
  std::string etag;  // as sent, quotes included
  std::string last_modified;
  Milliseconds retry_after{0};  // 0: not said
};

// `begin` is called once, when the headers are there, and before `take`, which is called for each
// piece of the body. An error of either ends the exchange and is what send() returns.
struct WebReceiver {
  std::function<Status(const WebAnswer&)> begin;
  std::function<Status(BytesView)> take;
};

// Blocks. Any status is an answer, and none an error. `unavailable`: may work in a moment (broken,
// cut, stalled, not resolved); `permission_denied`: a certificate that does not verify; `invalid`:
// an address that is none; `failed_precondition`: too many redirects, or one to something else than
// http and https; `cancelled`: `stop`, seen within a second. Proxies are those of the environment
// (https_proxy, no_proxy), as libcurl reads them. Safe from any thread.
Result<WebAnswer> send(const WebRequest& request, const WebReceiver& receiver,
                       std::stop_token stop);

// The address without what may be secret: the user's name and password, and the query.
std::string shown_url(const std::string& url);

}  // namespace tern
