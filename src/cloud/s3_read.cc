#include "cloud/s3_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "cloud/nonce.h"
#include "core/system_files.h"
#include "core/web_request.h"

namespace tern {
namespace {

constexpr int kReplacedMax = 16;    // times that a read begins again
constexpr int64_t kRoundParts = 4;  // times in_flight_max: room that is taken ahead

// More than any machine's memory would spare for one object.
constexpr int64_t kReadBytesMax = int64_t{256} << 30;

// An error's text, beside the bytes that were asked for.
constexpr int64_t kSlackBytes = 64 << 10;

S3Request range_request(const std::string& name, int64_t offset, int64_t length) {
  const int64_t last =
      offset > std::numeric_limits<int64_t>::max() - length ? INT64_MAX : offset + length - 1;
  return {.name = name,
          .headers = {{"Range", fmt::format("bytes={}-{}", offset, last)}},
          .answer_bytes_max = length + kSlackBytes};
}

// The object's size, if the answer is a part of it that begins at `offset` and has `length` bytes
// or goes to the object's end.
std::optional<int64_t> size_by_part(const HttpAnswer& answer, int64_t offset, int64_t length) {
  if (answer.status != 206) return std::nullopt;
  const std::optional<ContentRange> range = parse_content_range(answer.header("Content-Range"));
  if (!range || range->first != offset || range->total < 0) return std::nullopt;
  if (answer.body_bytes != std::min(length, range->total - offset)) return std::nullopt;
  return range->total;
}

std::string nonce_in(const HttpAnswer& answer) {
  return std::string(answer.header(std::string("x-amz-meta-") + kNonceName));
}

Error replaced(const std::string& name) {
  return fail(Code::aborted, fmt::format("'{}' was replaced while it was read", name));
}

}  // namespace

Result<Bytes> S3Reader::get_range(const std::string& name, int64_t offset, int64_t length) {
  RETURN_IF_ERROR(check_object_range(name, offset, length, INT64_MAX));
  if (length == 0) return read_past_end(name, offset, length);
  for (int i = 0; i < kReplacedMax; ++i) {
    Result<Bytes> bytes = read_once(name, offset, length);
    if (bytes || bytes.error().code != Code::aborted) return bytes;
  }
  return fail(Code::unavailable, fmt::format("'{}' was replaced {} times while it was read; try "
                                             "again when nobody writes it",
                                             name, kReplacedMax));
}

Result<Bytes> S3Reader::read_once(const std::string& name, int64_t offset, int64_t length) {
  const int64_t first = std::min(length, options_.part_bytes);
  ASSIGN_OR_RETURN(HttpAnswer answer, client_.send(range_request(name, offset, first)));
  if (answer.status == 416) return read_past_end(name, offset, length);
  const Version version{std::string(answer.header("ETag")),
                        size_by_part(answer, offset, first).value_or(-1)};
  if (answer.status == 200 && !version.etag.empty()) {
    // All of it: what some stores answer for an empty object, or a range that covers it.
    const auto size = static_cast<int64_t>(answer.body.size());
    RETURN_IF_ERROR(check_object_range(name, offset, length, size));
    return answer.body.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
  }
  if (answer.status / 100 != 2) return client_.error(answer, kS3Read, name);
  if (version.size_bytes < 0 || version.etag.empty()) return not_an_s3(answer, client_.place());
  const int64_t wanted = std::min(length, version.size_bytes - offset);
  Bytes bytes = std::move(answer.body);
  RETURN_IF_ERROR(read_rest(name, offset, wanted, version, bytes));
  return bytes;
}

Status S3Reader::read_rest(const std::string& name, int64_t offset, int64_t wanted,
                           const Version& version, Bytes& bytes) {
  if (static_cast<int64_t>(bytes.size()) == wanted) return {};
  const Error too_large =
      fail(Code::exhausted,
           fmt::format("'{}' has {} bytes, more than fit into memory; read it in ranges", name,
                       version.size_bytes));
  if (wanted > kReadBytesMax) return too_large;
  // Address space only: memory is taken round by round, as a size that was told may be a lie.
  try {
    bytes.reserve(static_cast<size_t>(wanted));
  } catch (const std::exception&) {
    return too_large;
  }
  const int64_t round = options_.part_bytes * options_.in_flight_max * kRoundParts;
  while (static_cast<int64_t>(bytes.size()) < wanted) {
    const auto from = static_cast<int64_t>(bytes.size());
    const int64_t to = std::min(wanted, from + round);
    bytes.resize(static_cast<size_t>(to));
    std::vector<S3Request> parts;
    std::vector<char> taken(static_cast<size_t>((to - from) / options_.part_bytes + 1), 0);
    for (int64_t at = from; at < to; at += options_.part_bytes) {
      const int64_t length = std::min(options_.part_bytes, to - at);
      S3Request part = range_request(name, offset + at, length);
      part.headers.push_back({"If-Match", version.etag});
      part.judge_first = [&bytes, &version, &is_taken = taken[parts.size()], at,
                          place = offset + at,
                          length](HttpAnswer& answer) -> std::optional<Verdict> {
        const bool fits = size_by_part(answer, place, length) == version.size_bytes &&
                          answer.header("ETag") == version.etag;
        if (!fits) return std::nullopt;
        std::memcpy(bytes.data() + at, answer.body.data(), answer.body.size());
        Bytes().swap(answer.body);
        is_taken = 1;
        return Verdict::done;
      };
      parts.push_back(std::move(part));
    }
    const std::vector<Result<HttpAnswer>> answers = client_.send_all(std::move(parts));
    for (size_t i = 0; i < answers.size(); ++i) {
      RETURN_IF_ERROR(answers[i]);
      const HttpAnswer& answer = *answers[i];
      if (taken[i] != 0) continue;
      // Stores that look at If-Match and then open the object may send a part of another version.
      const std::optional<ContentRange> range = parse_content_range(answer.header("Content-Range"));
      const bool is_other = answer.status == 206 && (answer.header("ETag") != version.etag ||
                                                     (range && range->total != version.size_bytes));
      if (is_other || answer.status == 412 || answer.status == 416) return replaced(name);
      return answer.status / 100 == 2 ? not_an_s3(answer, client_.place())
                                      : client_.error(answer, kS3Read, name);
    }
  }
  return {};
}

// For a range of nothing, and where the store says that there is nothing.
Result<Bytes> S3Reader::read_past_end(const std::string& name, int64_t offset, int64_t length) {
  ASSIGN_OR_RETURN(const ObjectInfo info, stat(name));
  RETURN_IF_ERROR(check_object_range(name, offset, length, info.size_bytes));
  if (offset == info.size_bytes || length == 0) return Bytes();
  return replaced(name);
}

Result<int64_t> S3Reader::get_range_to(const std::string& name, int64_t offset, int64_t length,
                                       const RangeSink& sink) {
  if (offset >= 0 && length > 0 && length <= options_.part_bytes) {
    S3Request request = range_request(name, offset, length);
    request.on_range = [&sink, length](int64_t at, BytesView piece) -> Status {
      if (at + static_cast<int64_t>(piece.size()) <= length) return sink(at, piece);
      return fail(Code::exhausted, "the store sends more than it was asked for; check the address");
    };
    ASSIGN_OR_RETURN(const HttpAnswer got, client_.send(std::move(request)));
    if (size_by_part(got, offset, length)) return got.body_bytes;
    // All other answers as get_range() has them.
  }
  ASSIGN_OR_RETURN(const Bytes bytes, get_range(name, offset, length));
  if (!bytes.empty()) RETURN_IF_ERROR(sink(0, bytes));
  return static_cast<int64_t>(bytes.size());
}

std::vector<Result<Bytes>> S3Reader::get_ranges(std::span<const ObjectRange> ranges) {
  std::vector<Result<Bytes>> all(ranges.size(), fail(Code::internal, "not read"));
  std::vector<S3Request> requests;
  std::vector<size_t> asked;  // which range each request is for
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ObjectRange& range = ranges[i];
    const bool plain = range.offset >= 0 && range.length > 0 && range.length <= options_.part_bytes;
    if (!plain) continue;
    requests.push_back(range_request(range.name, range.offset, range.length));
    asked.push_back(i);
  }
  std::vector<char> done(ranges.size(), 0);
  std::vector<Result<HttpAnswer>> answers = client_.send_all(std::move(requests));
  for (size_t k = 0; k < answers.size(); ++k) {
    const ObjectRange& range = ranges[asked[k]];
    Result<Bytes>& result = all[asked[k]];
    done[asked[k]] = 1;
    if (!answers[k]) {
      result = answers[k].error();
    } else if (size_by_part(*answers[k], range.offset, range.length)) {
      result = std::move(answers[k]->body);
    } else if (answers[k]->status == 416 || answers[k]->status / 100 == 2) {
      done[asked[k]] = 0;
    } else {
      result = client_.error(*answers[k], kS3Read, range.name);
    }
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (done[i] == 0) all[i] = get_range(ranges[i].name, ranges[i].offset, ranges[i].length);
  }
  return all;
}

Result<S3Reader::Seen> S3Reader::look(const std::string& name) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send({.method = "HEAD", .name = name}));
  if (answer.status == 200) {
    const std::optional<int64_t> size = parse_whole_number(answer.header("Content-Length"));
    const bool is_object = size && *size >= 0 && !answer.header("ETag").empty();
    if (!is_object) return not_an_s3(answer, client_.place());
    return Seen{*size, nonce_in(answer)};
  }
  if (answer.status == 404) return client_.error(answer, kS3Read, name);
  // HEAD says no without a word; the same question as GET is answered with the reason.
  ASSIGN_OR_RETURN(const HttpAnswer why, client_.send(range_request(name, 0, 1)));
  const std::optional<int64_t> size = size_by_part(why, 0, 1);
  if (size) return Seen{*size, nonce_in(why)};
  return client_.error(why, kS3Read, name);
}

Result<ObjectInfo> S3Reader::stat(const std::string& name) {
  ASSIGN_OR_RETURN(const Seen seen, look(name));
  return ObjectInfo{name, seen.size_bytes};
}

Result<std::string> S3Reader::nonce_of(const std::string& name) {
  ASSIGN_OR_RETURN(Seen seen, look(name));
  return std::move(seen.nonce);
}

}  // namespace tern
