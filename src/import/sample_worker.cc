#include "import/sample_worker.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

#include "core/crc32c.h"
#include "dataset/index.h"

namespace tern {
namespace {

using namespace std::string_view_literals;

constexpr size_t kCauseBytesMax = 500;

// Cheap: an image that was cut off does not end with the mark of its end. Zeros after it are
// padding. Those that end in another way (some cameras append things) are decoded to find out.
bool has_end(BytesView bytes, ImageFormat format) {
  const BytesView mark = format == ImageFormat::jpeg ? "\xFF\xD9"sv : "IEND\xAE\x42\x60\x82"sv;
  const size_t last = bytes.find_last_not_of('\0');
  return bytes.substr(0, last + 1).ends_with(mark);
}

}  // namespace

SampleWorker::SampleWorker(std::string root, std::optional<Representation> pack)
    : pack_(pack), reader_(std::move(root)) {}

Result<ImageInfo> SampleWorker::examine(const Bytes& bytes, const std::optional<ImageInfo>& raw) {
  if (bytes.empty()) return fail(Code::corrupt, "it is empty");
  if (bytes.size() > std::numeric_limits<uint32_t>::max()) {
    return fail(Code::corrupt, "it is larger than 4 GiB");
  }
  if (raw) {
    const int64_t expected = raw->channels * raw->size.pixels();
    if (std::cmp_equal(bytes.size(), expected)) return *raw;
    return fail(Code::corrupt,
                fmt::format("it has {} bytes of pixels, not {}", bytes.size(), expected));
  }
  ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes));
  if (info.format != ImageFormat::raw && !has_end(bytes, info.format)) {
    RETURN_IF_ERROR(decoder_.decode_rgb(bytes, info, pixels_));
  }
  return info;
}

Result<WorkedSample> SampleWorker::work(SourceSample sample) {
  if (sample.name.size() > kSampleNameBytesMax) {
    return fail(Code::invalid,
                fmt::format("the name of a sample has {} bytes: {}...; give it a shorter one",
                            sample.name.size(), sample.name.substr(0, 100)));
  }
  WorkedSample worked;
  worked.record.name = std::move(sample.name);
  worked.record.class_name = std::move(sample.class_name);
  worked.record.split = sample.split;
  const auto bad = [&worked](const Error& error) -> Result<WorkedSample> {
    if (error.code != Code::corrupt) return error.at(worked.record.name);
    worked.record.bad_cause = error.message.substr(0, kCauseBytesMax);
    return std::move(worked);
  };

  if (!sample.bad_cause.empty()) return bad(fail(Code::corrupt, std::move(sample.bad_cause)));
  Bytes bytes = std::move(sample.bytes);
  if (sample.range) {
    ASSIGN_OR_RETURN(bytes, reader_.read(*sample.range));
    worked.file = std::move(sample.range->file);
    worked.file_bytes = reader_.file_bytes();
  }
  Result<ImageInfo> info = examine(bytes, sample.raw);
  if (!info) return bad(info.error());
  worked.record.info = *info;
  if (!pack_) {
    worked.record.offset = static_cast<uint64_t>(sample.range->offset);
    worked.record.length = static_cast<uint32_t>(bytes.size());
    worked.record.crc32c = crc32c(bytes);
    return worked;
  }
  Result<Bytes> payload = represent(*pack_, std::move(bytes), worked.record.info, decoder_);
  if (!payload) {
    worked.record.info = {};
    return bad(payload.error());
  }
  worked.payload = std::move(payload).value();
  return worked;
}

}  // namespace tern
