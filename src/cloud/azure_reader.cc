#include "cloud/azure_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <new>

#include "cloud/nonce.h"
#include "core/crypto.h"
#include "core/web_request.h"

namespace tern {
namespace {

// The most a blob can have (50,000 blocks of 4000 MiB); no range begins beyond.
constexpr int64_t kBlobBytesMax = int64_t{50'000} * 4000 * (1 << 20);
// The most that is read into memory at once, whatever a store says an object has.
constexpr int64_t kReadBytesMax = int64_t{64} << 30;
constexpr int64_t kErrorBytesMax = 64 << 10;  // beside the bytes asked for
constexpr int kReadAttempts = 5;

std::string reading(const std::string& name) { return fmt::format("read '{}'", name); }

// An empty range is asked for as one byte: whether it is inside must be known all the same.
int64_t asked_bytes(const ObjectRange& range) { return std::max<int64_t>(range.length, 1); }

Error other_bytes(const std::string& name) {
  return fail(Code::corrupt, fmt::format("could not read '{}': the store answered with other bytes "
                                         "than were asked for; look for a proxy that changes "
                                         "answers",
                                         name));
}

// Of the whole object, as the answer to a range tells it; -1: it does not.
int64_t total_of(const HttpAnswer& answer) {
  const std::optional<ContentRange> range = parse_content_range(answer.header("Content-Range"));
  return range ? range->total : -1;
}

// Whether the answer is exactly these bytes of an object of `total`.
bool is_range(const HttpAnswer& answer, int64_t offset, int64_t length, int64_t total) {
  const std::optional<ContentRange> range = parse_content_range(answer.header("Content-Range"));
  return answer.status == 206 && range && range->total == total && range->first == offset &&
         range->last - range->first + 1 == length &&
         answer.body.size() == static_cast<size_t>(length);
}

Result<int64_t> content_length_of(const std::string& name, const HttpAnswer& answer) {
  const std::string_view text = answer.header("Content-Length");
  int64_t size = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && size >= 0) return size;
  return fail(Code::corrupt, fmt::format("could not look at '{}': the store's answer has no usable "
                                         "Content-Length; look for a proxy that changes answers",
                                         name));
}

}  // namespace

AzureReader::AzureReader(AzureClient& client, const BucketOptions& options)
    : client_(client), options_(options) {}

AzureRequest AzureReader::request_for(const ObjectRange& range, const std::string& etag) const {
  const int64_t length = asked_bytes(range);
  AzureRequest request{
      .doing = reading(range.name),
      .name = range.name,
      .headers = {{"Range", fmt::format("bytes={}-{}", range.offset, range.offset + length - 1)}},
      .answer_bytes_max = length + kErrorBytesMax};
  if (!etag.empty()) request.headers.push_back({"If-Match", etag});
  return request;
}

// For "416 Range Not Satisfiable": the range begins at the object's end, or beyond.
Result<AzureReader::Piece> AzureReader::end_of(const ObjectRange& range, const HttpAnswer& answer) {
  Piece piece;
  if (total_of(answer) >= 0) {
    piece.total = total_of(answer);
  } else if (range.offset > 0 || answer.status == 206) {  // a 416 at 0 is an empty object
    ASSIGN_OR_RETURN(const ObjectInfo info, stat(range.name));
    piece.total = info.size_bytes;
  }
  RETURN_IF_ERROR(check_object_range(range.name, range.offset, range.length, piece.total));
  if (range.offset < piece.total) return other_bytes(range.name);
  return piece;
}

Result<AzureReader::Piece> AzureReader::piece_of(const ObjectRange& range, HttpAnswer answer) {
  // The emulator answers at an object's end with success and nothing.
  const bool is_empty = answer.status == 206 && answer.body.empty();
  if (answer.status == 416 || is_empty) return end_of(range, answer);
  if (answer.status != 200 && answer.status != 206) {
    return client_.error_of(reading(range.name), answer);
  }
  Piece piece{.etag = std::string(answer.header("ETag"))};
  if (answer.status == 200) {  // the whole, as the range was not heeded
    piece.md5 = answer.header("Content-MD5");
    piece.total = static_cast<int64_t>(answer.body.size());
    RETURN_IF_ERROR(check_object_range(range.name, range.offset, range.length, piece.total));
    piece.bytes =
        answer.body.substr(static_cast<size_t>(range.offset), static_cast<size_t>(range.length));
    return piece;
  }
  const int64_t total = total_of(answer);
  const int64_t expected = std::min(asked_bytes(range), total - range.offset);
  if (total < 0 || !is_range(answer, range.offset, expected, total)) return other_bytes(range.name);
  piece.md5 = answer.header("x-ms-blob-content-md5");
  piece.total = total;
  piece.bytes = std::move(answer.body);
  if (range.length == 0) piece.bytes.clear();
  return piece;
}

Result<std::optional<Bytes>> AzureReader::read_rest(const ObjectRange& range, Piece first) {
  const int64_t length = std::min(range.length, first.total - range.offset);
  if (length > kReadBytesMax) {
    return fail(Code::exhausted,
                fmt::format("'{}' has {} bytes, and at most {} are read at once; read it in ranges",
                            range.name, first.total, kReadBytesMax));
  }
  Bytes all = std::move(first.bytes);
  const auto begin = static_cast<int64_t>(all.size());
  try {
    all.resize(static_cast<size_t>(length));
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted, fmt::format("no memory for the {} bytes of '{}'; read it in "
                                             "ranges, or use a larger machine",
                                             length, range.name));
  }
  std::vector<CloudRequest> requests;
  std::vector<char> is_taken(static_cast<size_t>((length - begin) / options_.part_bytes + 1), 0);
  for (int64_t at = begin; at < length; at += options_.part_bytes) {
    const int64_t size = std::min(options_.part_bytes, length - at);
    const ObjectRange part{range.name, range.offset + at, size};
    char& taken = is_taken[requests.size()];
    // Put in its place as soon as it is there, so that no part is held twice.
    requests.push_back(client_.prepare(
        [this, part, etag = first.etag] { return request_for(part, etag); },
        [part, &taken, to = all.data() + at, total = first.total](HttpAnswer& answer) {
          if (!is_range(answer, part.offset, part.length, total)) return;
          std::memcpy(to, answer.body.data(), answer.body.size());
          answer.body = Bytes();
          taken = 1;
        }));
  }
  const auto check = [&](size_t i, const HttpAnswer& answer) -> Status {
    // The emulator can tell a new version's ETag with an old one's bytes; their number tells it
    // too.
    const bool is_other =
        is_taken[i] == 0 && total_of(answer) >= 0 && total_of(answer) != first.total;
    if (answer.status == 412 || is_other) return fail(Code::aborted, "replaced while it was read");
    if (answer.status >= 300) return client_.error_of(reading(range.name), answer);
    if (is_taken[i] == 0) return other_bytes(range.name);
    return {};
  };
  const Status got = client_.send_parts(requests, reading(range.name), wave_of(options_), check);
  if (!got && got.error().code == Code::aborted) return std::optional<Bytes>();
  if (!got) return got.error();
  return std::optional<Bytes>(std::move(all));
}

Result<std::optional<Bytes>> AzureReader::read_once(const ObjectRange& range, int64_t first_bytes) {
  ObjectRange begin = range;
  begin.length = std::min(range.length, first_bytes);
  ASSIGN_OR_RETURN(HttpAnswer answer, client_.send(request_for(begin, /*etag=*/"")));
  ASSIGN_OR_RETURN(Piece piece, piece_of(begin, std::move(answer)));
  const auto got = static_cast<int64_t>(piece.bytes.size());
  if (got < std::min(range.length, piece.total - range.offset)) {
    return read_rest(range, std::move(piece));
  }
  if (got == piece.total && !piece.md5.empty() && piece.md5 != base64(md5(piece.bytes))) {
    return std::optional<Bytes>();
  }
  return std::optional<Bytes>(std::move(piece.bytes));
}

Result<Bytes> AzureReader::read(const std::string& name, int64_t offset, int64_t length) {
  RETURN_IF_ERROR(check_object_name(name));
  RETURN_IF_ERROR(check_object_range(name, offset, length, std::numeric_limits<int64_t>::max()));
  if (offset > kBlobBytesMax) {
    ASSIGN_OR_RETURN(const ObjectInfo info, stat(name));
    RETURN_IF_ERROR(check_object_range(name, offset, length, info.size_bytes));
  }
  const ObjectRange range{name, offset, std::min(length, kBlobBytesMax)};
  for (int attempt = 1; attempt <= kReadAttempts; ++attempt) {
    const bool is_last = attempt == kReadAttempts;
    const int64_t first_bytes = is_last ? kReadBytesMax : 2 * options_.part_bytes;
    ASSIGN_OR_RETURN(std::optional<Bytes> bytes, read_once(range, first_bytes));
    if (bytes) return std::move(*bytes);
  }
  return fail(Code::corrupt,
              fmt::format("could not read '{}': {} times its bytes did not fit the MD5 it was "
                          "stored with; write it anew, or look for a proxy that changes answers",
                          name, kReadAttempts));
}

std::vector<Result<Bytes>> AzureReader::read_all(std::span<const ObjectRange> ranges) {
  std::vector<Result<Bytes>> all(ranges.size(), Bytes());
  std::vector<CloudRequest> requests;
  std::vector<size_t> places;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ObjectRange& range = ranges[i];
    const bool is_usual = check_object_name(range.name).has_value() && range.offset >= 0 &&
                          range.offset <= kBlobBytesMax && range.length >= 0 &&
                          range.length <= 2 * options_.part_bytes;
    if (!is_usual) {
      all[i] = read(range.name, range.offset, range.length);
      continue;
    }
    requests.push_back(client_.prepare([this, &range] { return request_for(range, ""); }));
    places.push_back(i);
  }
  auto answers = client_.send_all(requests, fmt::format("read {} ranges", requests.size()));
  for (size_t i = 0; i < answers.size(); ++i) {
    Result<Bytes>& result = all[places[i]];
    if (!answers[i]) {
      result = answers[i].error();
      continue;
    }
    Result<Piece> piece = piece_of(ranges[places[i]], std::move(*answers[i]));
    if (piece) {
      result = std::move(piece->bytes);
    } else {
      result = piece.error();
    }
  }
  return all;
}

Result<HttpAnswer> AzureReader::look(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  const std::string doing = fmt::format("look at '{}'", name);
  ASSIGN_OR_RETURN(HttpAnswer answer,
                   client_.send({.doing = doing, .method = "HEAD", .name = name}));
  if (answer.status != 200) return client_.error_of(doing, answer);
  return answer;
}

Result<ObjectInfo> AzureReader::stat(const std::string& name) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, look(name));
  ASSIGN_OR_RETURN(const int64_t size, content_length_of(name, answer));
  return ObjectInfo{name, size};
}

Result<std::string> AzureReader::nonce_of(const std::string& name) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, look(name));
  return std::string(answer.header(std::string("x-ms-meta-") + kNonceName));
}

}  // namespace tern
