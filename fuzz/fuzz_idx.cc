// IDX files: the header, the reader and the source of imports, of one pair of files.
#include "dataset/idx.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_folder.h"
#include "import/idx_source.h"

namespace tern {
namespace {

constexpr int64_t kFileBytesMax = 1 << 20;

void check_sample(const SourceSample& sample, BytesView images) {
  TERN_CHECK(sample.raw && sample.raw->size.width >= 1 && sample.raw->size.height >= 1);
  const int64_t bytes = sample.raw->channels * sample.raw->size.pixels();
  if (!sample.range) {
    TERN_CHECK(static_cast<int64_t>(sample.bytes.size()) == bytes);
    return;
  }
  TERN_CHECK(sample.range->length == bytes && sample.range->offset >= 0 &&
             sample.range->offset <= static_cast<int64_t>(images.size()) - bytes);
}

void try_idx(BytesView bytes) {
  static const FuzzFolder folder;
  const BytesView labels = take_part(bytes);
  const auto bytes_held = static_cast<int64_t>(bytes.size());
  // Import has only the beginning of a file where it asks.
  const Result<IdxShape> shape = parse_idx(bytes.substr(0, 20), bytes_held);
  TERN_CHECK(shape.has_value() == parse_idx(bytes, bytes_held).has_value());

  folder.write("train-images-idx3-ubyte", bytes);
  folder.write("train-labels-idx1-ubyte", labels);
  const DataOptions options{.path = folder.path(), .file_bytes_max = kFileBytesMax};
  if (const auto data = open_idx(options, Split::train); data.has_value()) {
    TERN_CHECK((*data)->size() > 0 && (*data)->id().size() == 64);
    Bytes buffer;
    const int64_t last = (*data)->size() - 1;
    const Result<BytesView> stored = (*data)->fetch(last, buffer);
    TERN_CHECK(stored.has_value());
    TERN_CHECK(static_cast<int64_t>(stored->size()) == (*data)->shape().bytes());
  }
  const auto source = open_idx_source(folder.path(), {.member_bytes_max = kFileBytesMax});
  TERN_CHECK(source.has_value());
  (*source)
      ->scan([&](const SourceSample& sample) -> Status {
        check_sample(sample, bytes);
        return {};
      })
      .permit_unchecked_error();
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_idx)
