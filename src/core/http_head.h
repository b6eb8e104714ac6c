// The head of an HTTP/1.1 answer (RFC 9112), line by line. Of core's HTTP client.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "core/http_client.h"
#include "core/result.h"

namespace tern {

// Not thread-safe. What a server may send is anything: garbage is `unavailable`, as a broken
// connection is, and never more than kBytesMax are kept.
class HttpHead {
 public:
  // S3 allows 2 KB of an object's own headers and Azure 8 KB; the rest is a few hundred bytes.
  static constexpr size_t kBytesMax = 64 << 10;

  // One line as it came, with its end. An interim head ("100 Continue") is forgotten when the next
  // begins; what follows the last one (the trailer of a chunked body) is passed over.
  Status add_line(BytesView line);

  bool is_complete() const { return state_ == State::complete; }
  int status() const { return status_; }
  std::optional<int64_t> content_length() const { return content_length_; }
  std::vector<HttpHeader> take_headers() { return std::move(headers_); }

 private:
  enum class State { status_line, headers, complete };

  Status begin(BytesView line);
  Status add_header(BytesView line);

  State state_ = State::status_line;
  int status_ = 0;
  size_t bytes_ = 0;
  std::optional<int64_t> content_length_;
  std::vector<HttpHeader> headers_;
};

bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace tern
