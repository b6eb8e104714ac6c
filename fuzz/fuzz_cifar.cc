// CIFAR's batches: the reader of CIFAR-10, and the source of imports over a folder in memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataset/cifar10.h"
#include "fuzz/fuzz.h"
#include "fuzz/fuzz_folder.h"
#include "import/cifar_source.h"

namespace tern {
namespace {

constexpr int64_t kFileBytesMax = 1 << 20;
constexpr size_t kPixelBytes = 3072;

struct File {
  std::string name;
  Bytes bytes;
};

class MemoryFile final : public WalkedFile {
 public:
  explicit MemoryFile(const File& file) : file_(file) {}
  const std::string& name() const override { return file_.name; }
  int64_t size_bytes() const override { return static_cast<int64_t>(file_.bytes.size()); }
  std::optional<FileRange> range() override { return FileRange{file_.name, 0, size_bytes()}; }
  Result<Bytes> read(int64_t bytes_max) override {
    if (size_bytes() > bytes_max) return fail(Code::exhausted, "too large");
    return file_.bytes;
  }

 private:
  const File& file_;
};

class MemoryWalk final : public FileWalk {
 public:
  explicit MemoryWalk(std::vector<File> files) : files_(std::move(files)) {}
  std::string where() const override { return "fuzz"; }
  std::string root() const override { return "/fuzz"; }
  std::string version() const override { return "1"; }
  int64_t total_bytes() const override { return 1; }
  int64_t bytes_done() const override { return 0; }
  Status walk(const std::function<Status(WalkedFile&)>& visit) override {
    for (const File& file : files_) {
      MemoryFile walked(file);
      RETURN_IF_ERROR(visit(walked));
    }
    return {};
  }

 private:
  const std::vector<File> files_;
};

// What surveys look for, and a file that they do not.
constexpr const char* kNames[] = {"data_batch_1.bin",     "data_batch_2.bin", "data_batch_3.bin",
                                  "data_batch_4.bin",     "data_batch_5.bin", "test_batch.bin",
                                  "batches.meta.txt",     "train.bin",        "test.bin",
                                  "fine_label_names.txt", "readme.html"};

// A few bytes become a batch: whole records whose labels they are, and whose pixels nobody looks
// at. Without this the fuzzer would spend its time on lengths.
Bytes records(BytesView labels, size_t label_bytes) {
  Bytes bytes;
  for (size_t at = 0; at + label_bytes <= labels.size() && bytes.size() < 65'536;
       at += label_bytes) {
    bytes.append(labels.substr(at, label_bytes)).append(kPixelBytes, 'x');
  }
  return bytes;
}

// The input: for each file one byte that says which and how, then a part.
std::vector<File> take_files(BytesView& bytes) {
  std::vector<File> files;
  while (!bytes.empty() && files.size() < 16) {
    const auto choice = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    std::string name = kNames[choice % 16 % std::size(kNames)];
    const BytesView part = take_part(bytes);
    const size_t label_bytes = name.starts_with("t") && !name.starts_with("test_b") ? 2 : 1;
    Bytes content = (choice & 16) != 0 ? records(part, label_bytes) : Bytes(part);
    if ((choice & 32) != 0) name.insert(0, "below/");
    files.push_back({std::move(name), std::move(content)});
  }
  return files;
}

void try_source(std::vector<File> files) {
  auto walk = std::make_unique<MemoryWalk>(std::move(files));
  const Result<Survey> survey = survey_files(*walk);
  TERN_CHECK(survey.has_value());
  if (!looks_like_cifar(*survey)) return;
  const auto source = open_cifar(std::move(walk), *survey, {.member_bytes_max = kFileBytesMax});
  if (!source) return;
  (*source)
      ->scan([](const SourceSample& sample) -> Status {
        TERN_CHECK(sample.range && sample.range->length == kPixelBytes);
        TERN_CHECK(!sample.name.empty() && !sample.class_name.empty());
        return {};
      })
      .permit_unchecked_error();
}

void try_cifar(BytesView bytes) {
  static const FuzzFolder folder;
  std::vector<File> files = take_files(bytes);
  if (!files.empty()) {
    folder.write("test_batch.bin", files.front().bytes);
    const DataOptions options{.path = folder.path(), .file_bytes_max = kFileBytesMax};
    if (const auto data = open_cifar10(options, Split::test); data.has_value()) {
      TERN_CHECK((*data)->size() > 0 && (*data)->label((*data)->size() - 1) < 10);
    }
  }
  try_source(std::move(files));
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_cifar)
