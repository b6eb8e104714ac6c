#include "http_framing.h"

#include <algorithm>
#include <charconv>

namespace tern {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower[i]) return false;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// 0 for what is no number.
size_t number(std::string_view text, int base) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// Takes the first line off `text`, and with it its end.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find(kLineEnd);
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + kLineEnd.size());
  return line;
}

// The bytes of chunks, their last one and the trailers, from the beginning of `body`.
std::optional<size_t> chunked_size(std::string_view body) {
  size_t at = 0;
  for (;;) {
    const size_t end = body.find(kLineEnd, at);
    if (end == std::string_view::npos) return {};
    const size_t chunk = number(body.substr(at, end - at), 16);
    at = end + kLineEnd.size();
    if (chunk == 0) break;
    if (body.size() - at < chunk + kLineEnd.size()) return {};
    at += chunk + kLineEnd.size();
  }
  for (;;) {  // trailers, until an empty line
    const size_t end = body.find(kLineEnd, at);
    if (end == std::string_view::npos) return {};
    const bool last = end == at;
    at = end + kLineEnd.size();
    if (last) return at;
  }
}

std::optional<size_t> within(size_t size, std::string_view text) {
  return size <= text.size() ? std::optional(size) : std::nullopt;
}

}  // namespace

std::string_view WireHead::method() const { return first_line.substr(0, first_line.find(' ')); }

std::string_view WireHead::target() const {
  const std::string_view rest = first_line.substr(std::min(method().size() + 1, first_line.size()));
  return rest.substr(0, rest.find(' '));
}

int WireHead::status() const {
  if (!first_line.starts_with("HTTP/") || first_line.size() < 12) return 0;
  return static_cast<int>(number(first_line.substr(first_line.find(' ') + 1, 3), 10));
}

std::string_view WireHead::header(std::string_view name) const {
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && equal_ignoring_case(line.substr(0, colon), name)) {
      return trimmed(line.substr(colon + 1));
    }
  }
  return {};
}

std::optional<WireHead> read_wire_head(std::string_view text) {
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return {};
  std::string_view lines = text.substr(0, end + kLineEnd.size());
  const std::string_view first_line = take_line(lines);
  return WireHead{.first_line = first_line, .size = end + 4, .lines = lines};
}

std::optional<size_t> request_size(std::string_view text) {
  const auto head = read_wire_head(text);
  if (!head) return {};
  if (equal_ignoring_case(head->header("transfer-encoding"), "chunked")) {
    const auto body = chunked_size(text.substr(head->size));
    return body ? std::optional(head->size + *body) : std::nullopt;
  }
  return within(head->size + number(head->header("content-length"), 10), text);
}

std::optional<size_t> answer_size(std::string_view text, std::string_view method, Sender sender) {
  const auto head = read_wire_head(text);
  if (!head) return {};
  const int status = head->status();
  if (method == "HEAD" || status / 100 == 1 || status == 204 || status == 304) return head->size;
  if (equal_ignoring_case(head->header("transfer-encoding"), "chunked") ||
      !head->header("content-length").empty()) {
    return request_size(text);  // the same rules
  }
  return sender == Sender::is_gone ? std::optional(text.size()) : std::nullopt;
}

std::string without_header(std::string_view message, std::string_view name) {
  const auto head = read_wire_head(message);
  if (!head) return std::string(message);
  std::string kept = std::string(head->first_line) + "\r\n";
  for (std::string_view rest = head->lines; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (equal_ignoring_case(line.substr(0, line.find(':')), name)) continue;
    kept.append(line).append(kLineEnd);
  }
  return kept.append(kLineEnd).append(message.substr(head->size));
}

}  // namespace tern
