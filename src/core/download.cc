#include "core/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/part_file.h"
#include "core/random.h"
#include "core/web_request.h"

namespace tern {
namespace {

constexpr Milliseconds kFirstPause{500};
constexpr Milliseconds kPauseMax{30'000};
// A server may ask for more than kPauseMax, but not for any time.
constexpr Milliseconds kRetryAfterMax{300'000};
constexpr Milliseconds kHeadStallLimit{10'000};

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return text;
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What a later range request names the version by. A weak ETag cannot stand for equal bytes.
std::string version_of(const WebAnswer& answer) {
  return !answer.etag.empty() && !answer.etag.starts_with("W/") ? answer.etag
                                                                : answer.last_modified;
}

Error refusal(int status, const std::string& url) {
  const std::string says = fmt::format("{} answers with status {}", url, status);
  if (status == 404 || status == 410) {
    return fail(Code::not_found, says + ": there is no such file; check the address");
  }
  if (status == 401 || status == 403 || status == 407) {
    return fail(Code::permission_denied, says + ": it may not be fetched so; check the address");
  }
  return fail(Code::failed_precondition,
              says + " instead of the file; open the address in a browser to see why");
}

bool may_work_in_a_moment(int status) { return status == 408 || status == 429 || status >= 500; }

// One call of download(), attempt by attempt.
class Attempts {
 public:
  Attempts(const DownloadSetup& setup, PartFile& part)
      : setup_(setup), url_(shown_url(setup.url)), part_(part), furthest_(part.size_bytes()) {}

  Status run(const std::stop_token& stop) {
    for (int in_vain = 0;;) {
      const Status attempt = run_once(stop);
      if (attempt || attempt.error().code != Code::unavailable) return attempt;
      // Beginning again is no progress until it comes further than ever before.
      in_vain = part_.size_bytes() > furthest_ ? 1 : in_vain + 1;
      furthest_ = std::max(furthest_, part_.size_bytes());
      if (in_vain >= setup_.attempts_max) {
        return fail(Code::unavailable,
                    fmt::format("{}; gave up after {} attempts, with {} bytes "
                                "kept for the next",
                                attempt.error().message, in_vain, part_.size_bytes()));
      }
      const Nanoseconds pause = pause_after(in_vain);
      if (setup_.on_retry) setup_.on_retry(attempt.error(), pause);
      if (!setup_.clock->wait_for(pause, stop)) {
        return fail(Code::cancelled, fmt::format("fetching {} was stopped", url_));
      }
    }
  }

 private:
  Status run_once(const std::stop_token& stop) {
    asked_from_ = part_.can_go_on() && !ranges_failed_ ? part_.size_bytes() : 0;
    is_whole_ = false;
    retry_after_ = Milliseconds(0);
    total_ = 0;
    const WebRequest request{.url = setup_.url,
                             .first_byte = asked_from_,
                             .if_range = part_.version(),
                             .stall_limit = setup_.stall_limit,
                             .certificates = setup_.certificates};
    const Result<WebAnswer> answer =
        send(request,
             {.begin = [this](const WebAnswer& head) { return begin(head); },
              .take = [this](BytesView piece) { return take(piece); }},
             stop);
    if (!answer) return answer.error();
    if (is_whole_ || total_ == 0 || part_.size_bytes() == total_) return {};
    return fail(Code::unavailable,
                fmt::format("{} ended after {} of {} bytes", url_, part_.size_bytes(), total_));
  }

  Status begin(const WebAnswer& answer) {
    if (answer.status == 200) {
      RETURN_IF_ERROR(announce(std::max<int64_t>(answer.content_length, 0)));
      // What an earlier call had come to counts no more; that may be said once.
      if (!std::exchange(renewed_, true)) furthest_ = 0;
      return part_.restart(version_of(answer));
    }
    if (answer.status == 206 && asked_from_ > 0) return begin_range(answer);
    if (answer.status == 416 && asked_from_ > 0) {
      is_whole_ = answer.content_range && answer.content_range->total == asked_from_ &&
                  is_same_version(answer);
      return is_whole_ ? Status() : begin_again("has no such range");
    }
    if (!may_work_in_a_moment(answer.status)) return refusal(answer.status, url_);
    retry_after_ = answer.retry_after;
    return fail(Code::unavailable, fmt::format("{} answers with status {}", url_, answer.status));
  }

  Status begin_range(const WebAnswer& answer) {
    if (!is_same_version(answer)) return begin_again("has changed");
    if (!answer.content_range || answer.content_range->first != asked_from_) {
      return begin_again("sends another range than was asked for");
    }
    return announce(std::max<int64_t>(answer.content_range->total, 0));
  }

  // An answer that does not name its version is taken at its word: it has compared If-Range.
  bool is_same_version(const WebAnswer& answer) const {
    const std::string version = version_of(answer);
    return version.empty() || part_.version().empty() || version == part_.version();
  }

  // The next attempt, and those after it, ask for the whole.
  Error begin_again(const char* why) {
    ranges_failed_ = true;
    return fail(Code::unavailable, fmt::format("{} {}; it is begun again", url_, why));
  }

  Status announce(int64_t total) {
    if (total > setup_.bytes_max) return too_large(total);
    total_ = total;
    if (setup_.on_progress) setup_.on_progress(part_.size_bytes(), total_);
    return {};
  }

  Status take(BytesView piece) {
    if (is_whole_) return {};  // the words that come with a 416
    const int64_t after = part_.size_bytes() + static_cast<int64_t>(piece.size());
    if (total_ > 0 && after > total_) return begin_again("sends more than it announced");
    if (after > setup_.bytes_max) {
      part_.discard();
      return too_large(after);
    }
    RETURN_IF_ERROR(part_.append(piece));
    if (setup_.on_progress) setup_.on_progress(part_.size_bytes(), total_);
    return {};
  }

  Error too_large(int64_t bytes) const {
    return fail(Code::exhausted,
                fmt::format("{} has at least {} bytes, and {} are allowed; check the address", url_,
                            bytes, setup_.bytes_max));
  }

  // Half to all of the pause, so that many machines that failed together do not return together.
  Nanoseconds pause_after(int in_vain) const {
    const int doublings = std::min(in_vain - 1, 16);
    const Nanoseconds full = std::min<Nanoseconds>(kFirstPause * (1 << doublings), kPauseMax);
    const auto now = static_cast<uint64_t>(setup_.clock->now().count());
    const auto random =
        philox4x32({0, 0, 0, 0}, {static_cast<uint32_t>(now), static_cast<uint32_t>(now >> 32)});
    const double fraction = 0.5 + 0.5 * (random[0] * 0x1.0p-32);
    const Nanoseconds pause(static_cast<int64_t>(static_cast<double>(full.count()) * fraction));
    return std::max<Nanoseconds>(pause, std::min(retry_after_, kRetryAfterMax));
  }

  const DownloadSetup& setup_;
  const std::string url_;  // for messages
  PartFile& part_;
  int64_t furthest_;  // that the part has ever been
  bool renewed_ = false;
  bool ranges_failed_ = false;

  // Of the attempt.
  int64_t asked_from_ = 0;
  int64_t total_ = 0;      // 0: not said
  bool is_whole_ = false;  // the server has nothing to add
  Milliseconds retry_after_{0};
};

}  // namespace

Status download(const DownloadSetup& setup, std::stop_token stop) {
  TERN_CHECK(setup.clock != nullptr);
  if (!is_web_address(setup.url)) {
    return fail(Code::invalid,
                fmt::format("'{}' is no https:// or http:// address", shown_url(setup.url)));
  }
  const std::string sha256 = lower(setup.sha256);
  if (!sha256.empty() && !is_sha256(sha256)) {
    return fail(Code::invalid, fmt::format("'{}' is no SHA-256; give its 64 hex digits", sha256));
  }
  ASSIGN_OR_RETURN(const auto part, PartFile::open(setup.file, sha256, stop));
  RETURN_IF_ERROR(Attempts(setup, *part).run(stop));
  return part->finish();
}

bool is_web_address(const std::string& text) {
  const std::string scheme = lower(text.substr(0, text.find("://")));
  return text.size() > scheme.size() + 3 && (scheme == "https" || scheme == "http");
}

Result<int64_t> download_bytes(const std::string& url, const std::string& certificates) {
  ASSIGN_OR_RETURN(const WebAnswer answer, send({.url = url,
                                                 .method = WebRequest::Method::head,
                                                 .stall_limit = kHeadStallLimit,
                                                 .certificates = certificates},
                                                {}, {}));
  if (answer.status != 200) return refusal(answer.status, shown_url(url));
  return std::max<int64_t>(answer.content_length, 0);
}

}  // namespace tern
