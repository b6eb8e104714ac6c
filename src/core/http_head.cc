#include "core/http_head.h"

#include <algorithm>
#include <charconv>

namespace tern {
namespace {

Error garbage(const char* what) {
  return fail(Code::unavailable, std::string("answers with ") + what +
                                     "; check that the address is that of a web service");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// RFC 9110, 5.6.2: what names of headers are made of.
bool is_token(BytesView text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

// Bytes from 0x80 on are let through: metadata in UTF-8.
bool is_field_value(BytesView text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
  });
}

BytesView trim(BytesView text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == BytesView::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

BytesView without_end(BytesView line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Digits only, and few enough to fit.
std::optional<int64_t> parse_length(BytesView text) {
  int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (text.empty() || !is_digit(text[0]) || error != std::errc() || end != last) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

Status HttpHead::add_line(BytesView line) {
  if (is_complete() && status_ >= 200) return {};
  bytes_ += line.size();
  if (bytes_ > kBytesMax) return garbage("a head that does not end");
  line = without_end(line);
  if (state_ != State::headers) return begin(line);
  if (!line.empty()) return add_header(line);
  state_ = State::complete;
  return {};
}

Status HttpHead::begin(BytesView line) {
  // "HTTP/1.1 200 OK", "HTTP/1.1 200"
  constexpr std::string_view kShape = "HTTP/d.d ddd";
  bool fits = line.size() >= kShape.size();
  for (size_t i = 0; fits && i < kShape.size(); ++i) {
    fits = kShape[i] == 'd' ? is_digit(line[i]) : line[i] == kShape[i];
  }
  fits = fits && (line.size() == kShape.size() || line[kShape.size()] == ' ');
  if (!fits || line[9] < '1' || line[9] > '5') return garbage("something else than HTTP");
  status_ = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  state_ = State::headers;
  content_length_.reset();
  headers_.clear();
  return {};
}

Status HttpHead::add_header(BytesView line) {
  if (!is_field_value(line)) return garbage("a header that is none");
  if (line[0] == ' ' || line[0] == '\t') {  // goes on, as RFC 9112, 5.2 still lets it
    if (headers_.empty()) return garbage("a header that is none");
    headers_.back().value.append(" ").append(trim(line));
    return {};
  }
  const size_t colon = line.find(':');
  if (colon == BytesView::npos || !is_token(line.substr(0, colon))) {
    return garbage("a header that is none");
  }
  const BytesView name = line.substr(0, colon);
  const BytesView value = trim(line.substr(colon + 1));
  if (equals_ignoring_case(name, "Content-Length")) {
    const std::optional<int64_t> length = parse_length(value);
    if (!length || (content_length_ && *content_length_ != *length)) {
      return garbage("a Content-Length that is none");
    }
    content_length_ = length;
  }
  headers_.push_back({.name = std::string(name), .value = std::string(value)});
  return {};
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpAnswer::header(std::string_view name) const {
  for (const HttpHeader& each : headers) {
    if (equals_ignoring_case(each.name, name)) return each.value;
  }
  return {};
}

}  // namespace tern
