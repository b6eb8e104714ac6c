#include "core/web_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "core/curl_errors.h"

namespace tern {
namespace {

constexpr long kRedirectsMax = 10;
constexpr long kBufferBytes = 256 << 10;

struct CloseHandle {
  void operator()(CURL* handle) const { libcurl().easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { libcurl().slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, CloseHandle>;
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

// What libcurl's callbacks, all on the thread of send(), know of the exchange.
struct Exchange {
  const WebReceiver& receiver;
  const std::stop_token stop;
  CURL* handle;
  WebAnswer answer;
  bool begun = false;
  Status failure;

  Status begin() {
    if (begun) return {};
    begun = true;
    curl_off_t wait_s = 0;
    if (libcurl().easy_getinfo(handle, CURLINFO_RETRY_AFTER, &wait_s) == CURLE_OK && wait_s > 0) {
      constexpr curl_off_t kDay = 24 * 60 * 60;
      answer.retry_after = std::chrono::seconds(std::min(wait_s, kDay));
    }
    return receiver.begin ? receiver.begin(answer) : Status();
  }
};

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Decimal digits only: no sign, no blanks, and it fits.
std::optional<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, [&](char x, char y) { return lower(x) == lower(y); });
}

void read_header(std::string_view line, WebAnswer& answer) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(colon + 1));
  if (equals_ignoring_case(name, "Content-Length")) {
    answer.content_length = parse_number(value).value_or(-1);
  } else if (equals_ignoring_case(name, "Content-Range")) {
    answer.content_range = parse_content_range(value);
  } else if (equals_ignoring_case(name, "ETag")) {
    answer.etag = value;
  } else if (equals_ignoring_case(name, "Last-Modified")) {
    answer.last_modified = value;
  }
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  if (exchange.begun) return line.size();  // what follows a body
  if (line.starts_with("HTTP/")) {
    exchange.answer = {};  // the answer before was a redirect, or "100 Continue"
  } else {
    read_header(line, exchange.answer);
  }
  long status = 0;
  libcurl().easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
  exchange.answer.status = static_cast<int>(status);
  return line.size();
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view piece(data, size * count);
  exchange.failure = exchange.begin();
  if (exchange.failure && exchange.receiver.take) exchange.failure = exchange.receiver.take(piece);
  return exchange.failure ? piece.size() : CURL_WRITEFUNC_ERROR;
}

int on_tick(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(user)->stop.stop_requested() ? 1 : 0;
}

Error failure_of(CURLcode code, const char* detail, const WebRequest& request) {
  const std::string url = shown_url(request.url);
  if (code != CURLE_TOO_MANY_REDIRECTS) return curl_failure(code, detail, url);
  return fail(Code::failed_precondition,
              fmt::format("{} redirects more than {} times; check the address in a browser", url,
                          kRedirectsMax));
}

struct Options {
  CURL* handle;
  CURLcode failed = CURLE_OK;

  template <typename T>
  void set(CURLoption option, T value) {
    if (failed == CURLE_OK) failed = libcurl().easy_setopt(handle, option, value);
  }
};

CURLcode prepare(CURL* handle, const WebRequest& request, Exchange& exchange, char* detail) {
  // Whole seconds are what libcurl takes; a limit of 0 would mean none.
  const auto stall_s = std::chrono::ceil<std::chrono::seconds>(request.stall_limit).count();
  Options options{handle};
  options.set(CURLOPT_URL, request.url.c_str());
  options.set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_FOLLOWLOCATION, 1L);
  options.set(CURLOPT_MAXREDIRS, kRedirectsMax);
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_USERAGENT, "tern");
  options.set(CURLOPT_BUFFERSIZE, kBufferBytes);
  options.set(CURLOPT_ERRORBUFFER, detail);
  options.set(CURLOPT_CONNECTTIMEOUT, std::max<long>(stall_s, 1));
  options.set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  options.set(CURLOPT_LOW_SPEED_TIME, std::max<long>(stall_s, 1));
  options.set(CURLOPT_HEADERFUNCTION, on_header);
  options.set(CURLOPT_HEADERDATA, &exchange);
  options.set(CURLOPT_WRITEFUNCTION, on_body);
  options.set(CURLOPT_WRITEDATA, &exchange);
  options.set(CURLOPT_XFERINFOFUNCTION, on_tick);
  options.set(CURLOPT_XFERINFODATA, &exchange);
  options.set(CURLOPT_NOPROGRESS, 0L);
  if (request.method == WebRequest::Method::head) options.set(CURLOPT_NOBODY, 1L);
  if (!request.certificates.empty()) {
    options.set(CURLOPT_CAINFO, request.certificates.c_str());
    options.set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  return options.failed;
}

}  // namespace

std::optional<ContentRange> parse_content_range(BytesView value) {
  constexpr std::string_view kUnit = "bytes ";
  if (!equals_ignoring_case(value.substr(0, kUnit.size()), kUnit)) return std::nullopt;
  value.remove_prefix(kUnit.size());
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view span = value.substr(0, slash);
  const std::string_view total_text = value.substr(slash + 1);
  ContentRange range;
  if (total_text != "*") {
    const std::optional<int64_t> total = parse_number(total_text);
    if (!total) return std::nullopt;
    range.total = *total;
  }
  if (span == "*") return range.total >= 0 ? std::optional(range) : std::nullopt;
  const size_t dash = span.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> first = parse_number(span.substr(0, dash));
  const std::optional<int64_t> last = parse_number(span.substr(dash + 1));
  if (!first || !last || *last < *first || (range.total >= 0 && *last >= range.total)) {
    return std::nullopt;
  }
  range.first = *first;
  range.last = *last;
  return range;
}

Result<WebAnswer> send(const WebRequest& request, const WebReceiver& receiver,
                       std::stop_token stop) {
  RETURN_IF_ERROR(start_libcurl());
  const Handle handle(libcurl().easy_init());
  if (!handle) return fail(Code::exhausted, "no memory for a web request; free some");
  Exchange exchange{.receiver = receiver, .stop = std::move(stop), .handle = handle.get()};
  char detail[CURL_ERROR_SIZE] = "";
  CURLcode code = prepare(handle.get(), request, exchange, detail);
  // A header and not CURLOPT_RANGE, which makes libcurl refuse a server that sends the whole.
  HeaderList headers;
  const auto add_header = [&](const std::string& line) {
    curl_slist* longer = libcurl().slist_append(headers.get(), line.c_str());
    if (longer == nullptr) code = CURLE_OUT_OF_MEMORY;
    if (longer != nullptr && longer != headers.get()) headers.reset(longer);
  };
  if (request.first_byte > 0) {
    add_header(fmt::format("Range: bytes={}-", request.first_byte));
    if (!request.if_range.empty()) add_header("If-Range: " + request.if_range);
  }
  if (code == CURLE_OK)
    code = libcurl().easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  if (code == CURLE_OK) code = libcurl().easy_perform(handle.get());

  if (!exchange.failure) return exchange.failure.error();
  if (exchange.stop.stop_requested() && code != CURLE_OK) {
    return fail(Code::cancelled, fmt::format("fetching {} was stopped", shown_url(request.url)));
  }
  if (code != CURLE_OK) return failure_of(code, detail, request);
  RETURN_IF_ERROR(exchange.begin());  // an answer without a body
  return exchange.answer;
}

std::string shown_url(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t path = std::min(url.find_first_of("/?#", host), url.size());
  const size_t at = url.substr(0, path).rfind('@');
  const size_t begin = at == std::string::npos || at < host ? host : at + 1;
  const size_t end = std::min(url.find_first_of("?#", path), url.size());
  return url.substr(0, host) + url.substr(begin, end - begin);
}

}  // namespace tern
