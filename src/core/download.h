// Fetches one file by https or http, resumed when cut.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct DownloadSetup {
  std::string url;
  std::filesystem::path file;  // appears whole or not at all; until then FILE.part
  std::string sha256;          // 64 hex digits; empty: not checked
  int64_t bytes_max = int64_t{1} << 40;
  int attempts_max = 8;              // in a row without a byte of progress
  Milliseconds stall_limit{30'000};  // a connection that gives nothing for so long is cut
  std::string certificates;          // a file of certificates to trust; empty: the system's
  Clock* clock = nullptr;            // outlives the call; waits between attempts
  // What has arrived, of how much (0: the server does not say). May be null.
  std::function<void(int64_t done, int64_t total)> on_progress;
  // Why an attempt failed, before the pause that the next one waits for. May be null.
  std::function<void(const Error& why, Nanoseconds pause)> on_retry;
};

// Blocks. A FILE.part of an earlier call is gone on with by a range request, unless the server's
// ETag or Last-Modified (kept in FILE.part.etag) has changed: then it begins again. 5xx, 429,
// time-outs and broken connections are tried again with growing pauses; 4xx, a certificate that
// does not verify and a full disk are not. A sha256 that differs is `corrupt`, and the part is
// removed. More than bytes_max is `exhausted`. Two downloads of one FILE at once: the second is
// `failed_precondition`. `stop`: `cancelled`, the part stays. The folder of FILE must exist.
Status download(const DownloadSetup& setup, std::stop_token stop = {});

// True for what download() understands: "https://...", "http://...".
bool is_web_address(const std::string& text);

// What the server says of the size by a HEAD request, tried once; 0: it does not say.
Result<int64_t> download_bytes(const std::string& url, const std::string& certificates = "");

}  // namespace tern
