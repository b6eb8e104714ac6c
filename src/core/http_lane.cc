#include "core/http_lane.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/curl_errors.h"
#include "core/web_request.h"

namespace tern {
namespace {

// Larger ones save calls but leave the cache: each byte passes through them once.
constexpr long kReceiveBytes = 256 << 10;
constexpr long kSendBytes = 256 << 10;
constexpr int64_t kSlowestBytesPerSecond = 1024;  // an eighth of what a bad modem link has

struct Options {
  CURL* handle;
  CURLcode failed = CURLE_OK;

  template <typename T>
  void set(CURLoption option, T value) {
    if (failed == CURLE_OK) failed = libcurl().easy_setopt(handle, option, value);
  }
};

// "https://host:443" of "https://host:443/path?query".
std::string host_of(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return {};
  return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F;
  });
}

// Also keeps a header's value from becoming two headers.
Status check(const HttpRequest& request) {
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
  if (std::ranges::find(kMethods, request.method) == std::end(kMethods)) {
    return fail(Code::invalid, "the method of a web request is none; use GET, PUT or the like");
  }
  const bool is_web = request.url.starts_with("http://") || request.url.starts_with("https://");
  if (!is_web || host_of(request.url).ends_with('/') || !is_plain(request.url) ||
      request.url.find(' ') != std::string::npos) {
    return fail(Code::invalid, fmt::format("'{}' is no https:// or http:// address; check it",
                                           is_plain(request.url) ? shown_url(request.url) : ""));
  }
  for (const HttpHeader& header : request.headers) {
    if (header.name.empty() || !is_plain(header.name) || !is_plain(header.value) ||
        header.name.find_first_of(":; ") != std::string::npos) {
      return fail(Code::invalid,
                  fmt::format("a header of the request to {} has a line break or another control "
                              "character in it; check the names and keys you gave",
                              shown_url(request.url)));
    }
  }
  return {};
}

// Fresh memory comes in pages of 4 KB, and to fetch each of them costs more than to receive what
// goes there: 1.2 s/GB for 64 MB, against 0.5 in pages of 2 MB. Where they are not to be had
// nothing changes.
void take_memory(Bytes& bytes, size_t size) {
  constexpr uintptr_t kPage = 2 << 20;
  bytes.reserve(size);
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + size) / kPage * kPage;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// As libcurl does, but not for the programs that we start to inherit.
curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool changes_nothing(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

HttpLane::HttpLane(const HttpOptions& options, TrustedCertificates& certificates)
    : options_(options),
      certificates_(certificates),
      multi_(libcurl().multi_init()),
      easy_(libcurl().easy_init()) {}

HttpLane::~HttpLane() {
  abandon();
  // Closing the connection must not come back to members that are gone.
  libcurl().multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, nullptr);
}

Result<std::unique_ptr<HttpLane>> HttpLane::create(const HttpOptions& options,
                                                   TrustedCertificates& certificates) {
  std::unique_ptr<HttpLane> lane(new HttpLane(options, certificates));
  CURLM* const multi = lane->multi_.get();
  if (multi == nullptr || lane->easy_ == nullptr ||
      libcurl().multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
      libcurl().multi_setopt(multi, CURLMOPT_SOCKETDATA, lane.get()) != CURLM_OK ||
      libcurl().multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 1L) != CURLM_OK ||
      libcurl().multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L) != CURLM_OK) {
    return fail(Code::exhausted, "no memory for a web request; free some");
  }
  return lane;
}

void HttpLane::begin(const HttpRequest& request, Nanoseconds now) {
  TERN_CHECK(!is_added_);
  request_ = &request;
  headers_.reset();
  head_ = {};
  body_ = {};
  body_bytes_ = 0;
  failure_ = {};
  code_ = CURLE_OK;
  is_sent_ = false;
  is_done_ = false;
  last_moved_ = now;
  watched_ = Part::none;
  detail_[0] = '\0';
  failure_ = check(request);
  if (failure_) failure_ = prepare();
  if (failure_ && libcurl().multi_add_handle(multi_.get(), easy_.get()) != CURLM_OK) {
    failure_ = fail(Code::internal, "libcurl refuses a request; report this");
  }
  if (!failure_) return leave(CURLE_OK);
  is_added_ = true;
  host_ = host_of(request.url);
  act(CURL_SOCKET_TIMEOUT, 0);
}

Status HttpLane::prepare() {
  libcurl().easy_reset(easy_.get());
  Options options{easy_.get()};
  options.set(CURLOPT_URL, request_->url.c_str());
  options.set(CURLOPT_PATH_AS_IS, 1L);
  options.set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  options.set(CURLOPT_SSL_VERIFYPEER, 1L);
  options.set(CURLOPT_SSL_VERIFYHOST, 2L);
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_NOPROGRESS, 1L);
  options.set(CURLOPT_TCP_NODELAY, 1L);
  options.set(CURLOPT_TCP_KEEPALIVE, 1L);
  options.set(CURLOPT_USERAGENT, "tern");
  // After a name that did not resolve libcurl keeps its buffer, and refuses another size for it.
  libcurl().easy_setopt(easy_.get(), CURLOPT_BUFFERSIZE, kReceiveBytes);
  libcurl().easy_setopt(easy_.get(), CURLOPT_UPLOAD_BUFFERSIZE, kSendBytes);
  options.set(CURLOPT_ERRORBUFFER, detail_);
  options.set(CURLOPT_CONNECTTIMEOUT_MS, std::max<long>(options_.connect_limit.count(), 1));
  options.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  options.set(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  options.set(CURLOPT_HEADERFUNCTION, on_header);
  options.set(CURLOPT_HEADERDATA, this);
  options.set(CURLOPT_WRITEFUNCTION, on_body);
  options.set(CURLOPT_WRITEDATA, this);
  options.set(CURLOPT_PREREQFUNCTION, on_request);
  options.set(CURLOPT_PREREQDATA, this);
  if (!options_.proxies) options.set(CURLOPT_NOPROXY, "*");
  // None that libcurl would read by itself.
  for (const CURLoption certificates :
       {CURLOPT_CAINFO, CURLOPT_CAPATH, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH}) {
    options.set(certificates, static_cast<const char*>(nullptr));
  }
  options.set(CURLOPT_SSL_CTX_FUNCTION, on_tls);
  options.set(CURLOPT_SSL_CTX_DATA, this);
  if (options.failed != CURLE_OK) {
    return curl_failure(options.failed, "", shown_url(request_->url));
  }
  RETURN_IF_ERROR(prepare_body());
  return prepare_headers();
}

Status HttpLane::prepare_body() {
  Options options{easy_.get()};
  const bool may_have_body = request_->method == "PUT" || request_->method == "POST";
  if (request_->method == "HEAD") {
    options.set(CURLOPT_NOBODY, 1L);
  } else if (may_have_body || !request_->body.empty()) {
    // As a POST whatever the method, since libcurl then reads from where the bytes lie, and sends
    // small ones together with the head.
    options.set(CURLOPT_POST, 1L);
    options.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_->body.size()));
    options.set(CURLOPT_POSTFIELDS, request_->body.empty() ? "" : request_->body.data());
    options.set(CURLOPT_CUSTOMREQUEST, request_->method.c_str());
  } else if (request_->method != "GET") {
    options.set(CURLOPT_CUSTOMREQUEST, request_->method.c_str());
  }
  if (options.failed == CURLE_OK) return {};
  return curl_failure(options.failed, "", shown_url(request_->url));
}

Status HttpLane::prepare_headers() {
  std::vector<std::string> lines = {"Expect:"};  // without a name's value: not sent
  bool has_type = false;
  for (const HttpHeader& header : request_->headers) {
    has_type = has_type || equals_ignoring_case(header.name, "Content-Type");
    lines.push_back(header.name + (header.value.empty() ? ";" : ": " + header.value));
  }
  if (!has_type) lines.push_back("Content-Type:");  // else libcurl says that it is a form
  for (const std::string& line : lines) {
    curl_slist* longer = libcurl().slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) return fail(Code::exhausted, "no memory for a web request; free some");
    if (longer != headers_.get()) headers_.reset(longer);
  }
  libcurl().easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
  return {};
}

Result<HttpAnswer> HttpLane::finish() {
  TERN_CHECK(is_done_ && request_ != nullptr);
  const bool is_answer =
      failure_.has_value() && code_ == CURLE_OK && head_.is_complete() && head_.status() >= 200;
  Result<HttpAnswer> result = is_answer
                                  ? Result<HttpAnswer>(HttpAnswer{.status = head_.status(),
                                                                  .headers = head_.take_headers(),
                                                                  .body = std::move(body_),
                                                                  .body_bytes = body_bytes_})
                                  : Result<HttpAnswer>(failure());
  request_ = nullptr;
  body_ = {};
  return result;
}

Error HttpLane::failure() const {
  if (!failure_) return failure_.error();
  const std::string url = shown_url(request_->url);
  // What HTTP cannot be read from is also called so by libcurl.
  if (code_ == CURLE_OK || (code_ == CURLE_UNSUPPORTED_PROTOCOL && is_sent_)) {
    return fail(Code::unavailable, fmt::format("{} does not answer in HTTP/1.1; check that the "
                                               "address is that of a web service",
                                               url));
  }
  return curl_failure(code_ == CURLE_UNSUPPORTED_PROTOCOL ? CURLE_URL_MALFORMAT : code_, detail_,
                      url);
}

void HttpLane::abandon() {
  if (is_added_) leave(CURLE_ABORTED_BY_CALLBACK);
  request_ = nullptr;
}

void HttpLane::leave(CURLcode code) {
  if (is_added_) libcurl().multi_remove_handle(multi_.get(), easy_.get());
  is_added_ = false;
  is_done_ = true;
  code_ = code;
}

Nanoseconds HttpLane::wait_max(Nanoseconds now) const {
  const Nanoseconds until_stalled = last_moved_ + options_.stall_limit - now;
  long timer_ms = -1;  // none
  libcurl().multi_timeout(multi_.get(), &timer_ms);
  return timer_ms < 0 ? until_stalled
                      : std::min<Nanoseconds>(until_stalled, Milliseconds(timer_ms));
}

void HttpLane::advance(std::span<const pollfd> ready, Nanoseconds now) {
  bool acted = false;
  for (const pollfd& each : ready) {
    if (each.revents == 0 || is_done_) continue;
    const int events = ((each.revents & (POLLIN | POLLHUP)) != 0 ? CURL_CSELECT_IN : 0) |
                       ((each.revents & POLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                       ((each.revents & (POLLERR | POLLNVAL)) != 0 ? CURL_CSELECT_ERR : 0);
    acted = true;
    last_moved_ = now;
    act(each.fd, events);
  }
  if (!acted && wait_max(now) <= Nanoseconds(0)) act(CURL_SOCKET_TIMEOUT, 0);
  if (acted) give_up_if_slow(now);
  if (is_done_ || now - last_moved_ < options_.stall_limit) return;
  failure_ =
      fail(Code::unavailable,
           fmt::format("{} has not moved a byte for {:.0f} s; check the network and try again",
                       shown_url(request_->url), to_seconds(options_.stall_limit)));
  leave(CURLE_OPERATION_TIMEDOUT);
}

// A byte now and then is no stall, and would be waited for for ever: once the request is sent, the
// head has the stall limit to arrive whole, and so has each piece of the body that the slowest link
// brings in that time. Not where something is changed: S3 sends blanks while it joins parts.
void HttpLane::give_up_if_slow(Nanoseconds now) {
  if (is_done_ || !is_sent_ || !changes_nothing(*request_)) return;
  const bool has_head = head_.is_complete() && head_.status() >= 200;
  const Part part = has_head ? Part::body : Part::head;
  const bool is_over = now - watched_since_ >= options_.stall_limit;
  const auto least = static_cast<int64_t>(static_cast<double>(kSlowestBytesPerSecond) *
                                          to_seconds(options_.stall_limit));
  if (is_over && part == watched_ && body_bytes_ - watched_from_ < least) {
    failure_ = fail(Code::unavailable,
                    fmt::format("{} answers too slowly, with less than {} bytes a second for "
                                "{:.0f} s; check the network and the address, and try again",
                                shown_url(request_->url), kSlowestBytesPerSecond,
                                to_seconds(options_.stall_limit)));
    return leave(CURLE_OPERATION_TIMEDOUT);
  }
  if (!is_over && part == watched_) return;
  watched_ = part;
  watched_since_ = now;
  watched_from_ = body_bytes_;
}

void HttpLane::act(curl_socket_t socket, int events) {
  int running = 0;
  if (libcurl().multi_socket_action(multi_.get(), socket, events, &running) != CURLM_OK) {
    failure_ = fail(Code::internal, "libcurl does not go on with a request; report this");
    return leave(CURLE_FAILED_INIT);
  }
  if (running > 0) return;
  int left = 0;
  const CURLMsg* message = libcurl().multi_info_read(multi_.get(), &left);
  leave(message != nullptr ? message->data.result : CURLE_GOT_NOTHING);
}

int HttpLane::on_socket(CURL*, curl_socket_t socket, int what, void* user, void*) {
  std::vector<pollfd>& sockets = static_cast<HttpLane*>(user)->sockets_;
  std::erase_if(sockets, [&](const pollfd& each) { return each.fd == socket; });
  if (what == CURL_POLL_REMOVE) return 0;
  const int events =
      ((what & CURL_POLL_IN) != 0 ? POLLIN : 0) | ((what & CURL_POLL_OUT) != 0 ? POLLOUT : 0);
  sockets.push_back({.fd = socket, .events = static_cast<short>(events), .revents = 0});
  return 0;
}

// Called for each new connection that is encrypted, also for one to a proxy.
CURLcode HttpLane::on_tls(CURL*, void* context, void* user) {
  auto& lane = *static_cast<HttpLane*>(user);
  lane.failure_ = lane.certificates_.give_to(static_cast<SSL_CTX*>(context));
  return lane.failure_ ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

// Called for each time that the request is sent. libcurl sends it again, on a new connection, when
// a kept one breaks before the answer; but then it may have been carried out, and who asks for a
// change must know that.
int HttpLane::on_request(void* user, char*, char*, int, int) {
  auto& lane = *static_cast<HttpLane*>(user);
  if (!std::exchange(lane.is_sent_, true) || changes_nothing(*lane.request_)) {
    return CURL_PREREQFUNC_OK;
  }
  lane.failure_ =
      fail(Code::unavailable, fmt::format("{} closed the connection before it answered; try again",
                                          shown_url(lane.request_->url)));
  return CURL_PREREQFUNC_ABORT;
}

size_t HttpLane::on_header(char* data, size_t size, size_t count, void* user) {
  auto& lane = *static_cast<HttpLane*>(user);
  const Status added = lane.head_.add_line(BytesView(data, size * count));
  if (added) return size * count;
  lane.failure_ = added.error().at(shown_url(lane.request_->url));
  return CURL_WRITEFUNC_ERROR;
}

size_t HttpLane::on_body(char* data, size_t size, size_t count, void* user) {
  auto& lane = *static_cast<HttpLane*>(user);
  lane.failure_ = lane.take_piece(BytesView(data, size * count));
  return lane.failure_ ? size * count : CURL_WRITEFUNC_ERROR;
}

Status HttpLane::take_piece(BytesView piece) {
  const int64_t arrived = body_bytes_ + static_cast<int64_t>(piece.size());
  const int64_t announced = std::max(arrived, head_.content_length().value_or(0));
  if (announced > request_->answer_bytes_max) {
    return fail(
        Code::exhausted,
        fmt::format("{} answers with at least {} bytes, and {} are allowed; check the address",
                    shown_url(request_->url), announced, request_->answer_bytes_max));
  }
  const int64_t at = std::exchange(body_bytes_, arrived);
  if (request_->on_range && head_.status() == 206) return request_->on_range(at, piece);
  try {  // no exception may pass through libcurl
    if (body_.empty()) take_memory(body_, static_cast<size_t>(announced));
    body_.append(piece);
  } catch (const std::exception&) {
    return fail(Code::exhausted, fmt::format("no memory for the {} bytes of {}; free some",
                                             announced, shown_url(request_->url)));
  }
  return {};
}

void wait_for_lanes(std::span<HttpLane* const> lanes, int wake, Clock& clock) {
  std::vector<pollfd> polled = {{.fd = wake, .events = POLLIN, .revents = 0}};
  Nanoseconds wait = std::chrono::hours(1);
  const Nanoseconds before = clock.now();
  for (const HttpLane* lane : lanes) {
    polled.insert(polled.end(), lane->sockets().begin(), lane->sockets().end());
    wait = lane->is_done() ? Nanoseconds(0) : std::min(wait, lane->wait_max(before));
  }
  const auto wait_ms = std::chrono::ceil<Milliseconds>(std::max(wait, Nanoseconds(0))).count();
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) < 0) {
    for (pollfd& each : polled) each.revents = 0;  // a signal; what is ready is so the next time
  }
  const Nanoseconds now = clock.now();
  size_t next = 1;
  for (HttpLane* lane : lanes) {
    const size_t count = lane->sockets().size();
    const std::span<const pollfd> ready(polled.data() + next, count);
    next += count;
    if (!lane->is_done()) lane->advance(ready, now);
  }
}

}  // namespace tern
