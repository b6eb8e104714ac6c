// Where an HTTP/1.1 message ends: all that a proxy must know of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tern {

// The head of a request or an answer, names of headers in any case. Parts point into the text that
// it was read from.
struct WireHead {
  std::string_view first_line;
  size_t size = 0;  // with the empty line

  // Of a request.
  std::string_view method() const;
  std::string_view target() const;
  // Of an answer; 0 if it is none.
  int status() const;
  // The first of that name (in lower case), without the blanks around it; empty if there is none.
  std::string_view header(std::string_view name) const;

  std::string_view lines;  // of the headers
};

// Nothing while the head is not complete.
std::optional<WireHead> read_wire_head(std::string_view text);

// The bytes of the first message in `text`, if it is complete. An answer to HEAD, and 1xx, 204 and
// 304, have no body; an answer that tells no length ends where the connection does.
std::optional<size_t> request_size(std::string_view text);
enum class Sender { may_go_on, is_gone };
std::optional<size_t> answer_size(std::string_view text, std::string_view method, Sender sender);

// The message without the header of that name (in lower case).
std::string without_header(std::string_view message, std::string_view name);

}  // namespace tern
