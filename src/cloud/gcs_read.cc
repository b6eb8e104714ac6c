#include "cloud/gcs_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "core/crc32c.h"
#include "core/web_request.h"

namespace tern {
namespace {

constexpr int kReadsMax = 5;
// Room for an error's text in an answer to a request for a few bytes.
constexpr int64_t kErrorBytes = 64 << 10;

bool is_generation(std::string_view text) {
  return !text.empty() && text.size() <= 19 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "crc32c=n03x6A==,md5=..." in one header or two of that name.
std::optional<uint32_t> checksum_of(const HttpAnswer& answer) {
  constexpr std::string_view kKey = "crc32c=";
  for (const HttpHeader& header : answer.headers) {
    const size_t at = header.value.find(kKey);
    if (at == std::string::npos || HttpAnswer{.headers = {header}}.header("x-goog-hash").empty()) {
      continue;
    }
    const std::string_view text = std::string_view(header.value).substr(at + kKey.size());
    return parse_crc32c_text(text.substr(0, text.find(',')));
  }
  return std::nullopt;
}

// What a store claims may be more than there is memory for.
Status make_room(Bytes& bytes, int64_t size_bytes) {
  try {
    bytes.reserve(static_cast<size_t>(size_bytes));
    return {};
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return fail(Code::exhausted,
              fmt::format("no memory for an object of {} bytes; read it in ranges", size_bytes));
}

}  // namespace

// Where a part of the object belongs.
struct GcsReader::Part {
  int64_t offset = 0;
  int64_t length = 0;
  char* place = nullptr;
  bool filled = false;
};

std::optional<GcsPiece> take_gcs_piece(HttpAnswer& answer, int64_t offset, int64_t length) {
  GcsPiece piece;
  piece.generation = answer.header("x-goog-generation");
  if (!is_generation(piece.generation)) return std::nullopt;
  piece.crc32c = checksum_of(answer);
  const auto size = static_cast<int64_t>(answer.body.size());
  if (answer.status == 200) {  // the whole, whatever was asked for
    piece.total = size;
    if (offset == 0 && length >= size) {
      piece.bytes = std::move(answer.body);
    } else if (offset < size) {
      piece.bytes = answer.body.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    }
    return piece;
  }
  const std::optional<ContentRange> range = parse_content_range(answer.header("Content-Range"));
  if (!range || range->first != offset || range->total < 0) return std::nullopt;
  if (range->last - range->first + 1 != size || size > length) return std::nullopt;
  piece.total = range->total;
  piece.bytes = std::move(answer.body);
  return piece;
}

GcsReader::GcsReader(GcsConnection& connection, const BucketOptions& options)
    : connection_(connection),
      part_bytes_(std::max<int64_t>(options.part_bytes, 1)),
      // Some more than are in flight, so that few moments pass with less than that many.
      parts_at_once_(std::max<int64_t>(options.in_flight_max, 1) * 4) {}

GcsCall GcsReader::call(const std::string& name, int64_t offset, int64_t length,
                        const std::string& generation) const {
  // Stored with Content-Encoding: gzip, an object would arrive unpacked, and in no ranges.
  GcsCall call{.path = connection_.object_path(name) + "?alt=media",
               .headers = {{"Accept-Encoding", "gzip"}},
               .answer_bytes_max = length + kErrorBytes};
  call.headers.push_back({"Range", fmt::format("bytes={}-{}", offset, offset + (length - 1))});
  if (!generation.empty()) call.path += "&generation=" + generation;
  return call;
}

Result<GcsPiece> GcsReader::piece_of(HttpAnswer& answer, const std::string& name, int64_t offset,
                                     int64_t length) {
  if (answer.status == 416) {  // nothing is there: at the end, or past it
    const auto range = parse_content_range(answer.header("Content-Range"));
    if (range && range->first < 0) return GcsPiece{.total = range->total};
    ASSIGN_OR_RETURN(const GcsObject object, stat(name));
    return GcsPiece{.total = object.size_bytes};
  }
  if (answer.status != 200 && answer.status != 206) {
    return connection_.error_of(answer, kGcsRead, name);
  }
  std::optional<GcsPiece> piece = take_gcs_piece(answer, offset, length);
  if (!piece) return connection_.not_a_store(answer, name);
  return std::move(*piece);
}

Result<Bytes> GcsReader::read(const std::string& name, int64_t offset, int64_t length) {
  if (offset < 0 || length < 0) return check_object_range(name, offset, length, 0).error();
  if (length == 0 || offset > INT64_MAX - part_bytes_) {
    ASSIGN_OR_RETURN(const GcsObject object, stat(name));
    RETURN_IF_ERROR(check_object_range(name, offset, length, object.size_bytes));
    return Bytes();
  }
  Error last = fail(Code::unavailable, "");
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const int64_t first = std::min(length, part_bytes_);
    ASSIGN_OR_RETURN(HttpAnswer answer, connection_.send(call(name, offset, first, "")));
    ASSIGN_OR_RETURN(GcsPiece piece, piece_of(answer, name, offset, first));
    RETURN_IF_ERROR(check_object_range(name, offset, length, piece.total));
    const int64_t end = offset + std::min(length, piece.total - offset);
    const Status rest = read_rest(name, offset, end, piece);
    const bool is_whole = offset == 0 && end == piece.total;
    if (rest && (!is_whole || !piece.crc32c || crc32c(piece.bytes) == *piece.crc32c)) {
      return std::move(piece.bytes);
    }
    last = rest ? fail(Code::corrupt,
                       fmt::format("gs://{}/{} is read with another checksum than it was stored "
                                   "with; check this machine's network and memory",
                                   connection_.bucket(), name))
                : rest.error();
    if (last.code != Code::corrupt && last.code != Code::aborted) return last;
    if (last.code == Code::corrupt && reads > 0) return last;
  }
  return fail(Code::unavailable, last.message);
}

// The object's bytes after the first piece, up to `end`, appended to it.
Status GcsReader::read_rest(const std::string& name, int64_t offset, int64_t end, GcsPiece& piece) {
  RETURN_IF_ERROR(make_room(piece.bytes, end - offset));
  for (;;) {
    int64_t at = offset + static_cast<int64_t>(piece.bytes.size());
    if (at >= end) return {};
    const int64_t stop = at + std::min(end - at, parts_at_once_ * part_bytes_);
    char* place = piece.bytes.data() + piece.bytes.size();
    piece.bytes.resize(static_cast<size_t>(stop - offset));  // there is room: `place` stays
    std::vector<Part> parts;
    while (at < stop) {
      const int64_t length = std::min(part_bytes_, stop - at);
      parts.push_back({.offset = at, .length = length, .place = place});
      place += length;
      at += length;
    }
    RETURN_IF_ERROR(read_parts(name, parts, piece));
  }
}

// `aborted` if that version of the object is gone.
Status GcsReader::read_parts(const std::string& name, std::span<Part> parts,
                             const GcsPiece& piece) {
  std::vector<CloudRequest> requests;
  for (Part& part : parts) {
    CloudRequest request =
        connection_.request(call(name, part.offset, part.length, piece.generation));
    request.judge = [&part, &piece](HttpAnswer& answer) {
      if (answer.status != 206) return judge_gcs(answer);
      const std::optional<GcsPiece> got = take_gcs_piece(answer, part.offset, part.length);
      const bool is_it = got && got->generation == piece.generation &&
                         static_cast<int64_t>(got->bytes.size()) == part.length;
      if (is_it) std::copy(got->bytes.begin(), got->bytes.end(), part.place);
      part.filled = is_it;
      return Verdict::done;
    };
    requests.push_back(std::move(request));
  }
  std::vector<Result<HttpAnswer>> answers = connection_.transport().send_all(requests);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!answers[i]) return answers[i].error();
    if (parts[i].filled) continue;
    if (answers[i]->status == 404) {
      return fail(Code::aborted, fmt::format("gs://{}/{} is replaced faster than it is read; try "
                                             "again when its writer is done",
                                             connection_.bucket(), name));
    }
    if (answers[i]->status / 100 == 2) {
      return connection_.not_a_store(*answers[i], name);
    }
    return connection_.error_of(*answers[i], kGcsRead, name);
  }
  return {};
}

std::vector<Result<Bytes>> GcsReader::read_all(std::span<const ObjectRange> ranges) {
  std::vector<Result<Bytes>> all(ranges.size(), Result<Bytes>(Bytes()));
  std::vector<CloudRequest> requests;
  std::vector<size_t> which;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ObjectRange& range = ranges[i];
    if (range.offset < 0 || range.length <= 0 || range.length > 2 * part_bytes_ ||
        range.offset > INT64_MAX - range.length) {
      all[i] = read(range.name, range.offset, range.length);
      continue;
    }
    requests.push_back(connection_.request(call(range.name, range.offset, range.length, "")));
    which.push_back(i);
  }
  std::vector<Result<HttpAnswer>> answers = connection_.transport().send_all(requests);
  for (size_t k = 0; k < which.size(); ++k) {
    const ObjectRange& range = ranges[which[k]];
    Result<Bytes>& result = all[which[k]];
    if (!answers[k]) {
      result = answers[k].error();
      continue;
    }
    Result<GcsPiece> piece = piece_of(*answers[k], range.name, range.offset, range.length);
    const Status inside =
        piece ? check_object_range(range.name, range.offset, range.length, piece->total)
              : piece.error();
    const auto size = piece ? static_cast<int64_t>(piece->bytes.size()) : 0;
    if (!inside) {
      result = inside.error();
    } else if (size < std::min(range.length, piece->total - range.offset)) {
      result = read(range.name, range.offset, range.length);  // a store may send less
    } else {
      result = std::move(piece->bytes);
    }
  }
  return all;
}

Result<GcsObject> GcsReader::stat(const std::string& name) {
  ASSIGN_OR_RETURN(const HttpAnswer answer,
                   connection_.send({.path = connection_.object_path(name) +
                                             "?fields=name,size,generation,crc32c,metadata"}));
  if (answer.status != 200) return connection_.error_of(answer, kGcsRead, name);
  std::optional<GcsObject> object = parse_gcs_object(answer.body);
  if (!object || object->name != name) return connection_.not_a_store(answer, name);
  return std::move(*object);
}

}  // namespace tern
