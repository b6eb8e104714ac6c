// One connection to a web server and the exchange under way on it, by libcurl's multi interface.
// Of core's HTTP client, which has many of them.
#pragma once

#include <poll.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/http_client.h"
#include "core/http_head.h"
#include "core/libcurl.h"
#include "core/trusted_certificates.h"

namespace tern {

// Used by one thread at a time, whichever: it never blocks, and whoever uses it waits for its
// sockets. A lane has at most one connection, so that lanes can be counted instead; its own multi
// handle keeps that connection for the next exchange.
//
//   lane->begin(request, now);
//   while (!lane->is_done()) wait_for_lanes(...);
//   answer = lane->finish();
class HttpLane {
 public:
  // Both outlive it.
  static Result<std::unique_ptr<HttpLane>> create(const HttpOptions& options,
                                                  TrustedCertificates& certificates);
  ~HttpLane();
  HttpLane(const HttpLane&) = delete;
  HttpLane& operator=(const HttpLane&) = delete;

  // The scheme and host that it is, or was last, connected to; empty if none.
  const std::string& host() const { return host_; }

  // REQUIRES: no exchange is under way; `request` stays until finish() or abandon(). What fails
  // here is told by finish().
  void begin(const HttpRequest& request, Nanoseconds now);
  bool is_done() const { return is_done_; }
  // Once, when it is done. Errors as HttpClient::Call::wait().
  Result<HttpAnswer> finish();
  // Ends what is under way, with its connection.
  void abandon();

  // What to wait for, and how long at most. Both change with each advance().
  std::span<const pollfd> sockets() const { return sockets_; }
  Nanoseconds wait_max(Nanoseconds now) const;
  // After a wait: sockets() with what became of them.
  void advance(std::span<const pollfd> ready, Nanoseconds now);

 private:
  HttpLane(const HttpOptions& options, TrustedCertificates& certificates);

  static int on_socket(CURL*, curl_socket_t socket, int what, void* user, void*);
  static CURLcode on_tls(CURL*, void* context, void* user);
  static int on_request(void* user, char*, char*, int, int);
  static size_t on_header(char* data, size_t size, size_t count, void* user);
  static size_t on_body(char* data, size_t size, size_t count, void* user);

  Status prepare();
  Status prepare_body();
  Status prepare_headers();
  Status take_piece(BytesView piece);
  void act(curl_socket_t socket, int events);
  void give_up_if_slow(Nanoseconds now);
  void leave(CURLcode code);
  Error failure() const;

  struct CloseEasy {
    void operator()(CURL* handle) const { libcurl().easy_cleanup(handle); }
  };
  struct CloseMulti {
    void operator()(CURLM* handle) const { libcurl().multi_cleanup(handle); }
  };
  struct FreeList {
    void operator()(curl_slist* list) const { libcurl().slist_free_all(list); }
  };

  const HttpOptions& options_;
  TrustedCertificates& certificates_;
  const std::unique_ptr<CURLM, CloseMulti> multi_;
  const std::unique_ptr<CURL, CloseEasy> easy_;  // after multi_: closed first
  std::string host_;
  std::vector<pollfd> sockets_;

  // Of the exchange.
  const HttpRequest* request_ = nullptr;
  std::unique_ptr<curl_slist, FreeList> headers_;
  HttpHead head_;
  Bytes body_;
  int64_t body_bytes_ = 0;
  Status failure_;  // ours, which ended it; libcurl's is code_
  CURLcode code_ = CURLE_OK;
  bool is_sent_ = false;  // the request was, at least in part
  bool is_added_ = false;
  bool is_done_ = true;
  Nanoseconds last_moved_{0};
  // Of the answer's pace: since when it is watched, and from which of its bytes on.
  enum class Part { none, head, body } watched_ = Part::none;
  Nanoseconds watched_since_{0};
  int64_t watched_from_ = 0;
  char detail_[CURL_ERROR_SIZE] = "";
};

// Waits until something can be done for one of the lanes, or `wake` can be read from, and does it.
// Does not wait if a lane is done, as one may be that has just begun.
void wait_for_lanes(std::span<HttpLane* const> lanes, int wake, Clock& clock);

}  // namespace tern
