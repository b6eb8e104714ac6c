#include "dataset/cifar10.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "dataset/in_memory_dataset.h"
#include "dataset/read_file.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape kShape{3, 32, 32};
constexpr size_t kImageBytes = 3 * 32 * 32;
constexpr size_t kRecordBytes = 1 + kImageBytes;

std::vector<std::string> file_names(Split split) {
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

Result<fs::path> find_folder(const DataOptions& options, const std::string& file) {
  const fs::path given(options.path);
  const fs::path inside = given / "cifar-10-batches-bin";
  for (const fs::path& folder : {given, inside}) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return folder;
  }
  return fail(Code::not_found, fmt::format("there is no {} in {} or {}; set data.path to where "
                                           "cifar-10-binary.tar.gz was unpacked",
                                           file, given.string(), inside.string()));
}

Status append_batch(const std::string& path, BytesView bytes, Samples& samples) {
  if (bytes.empty() || bytes.size() % kRecordBytes != 0) {
    return fail(Code::corrupt,
                fmt::format("{}: has {} bytes, which is not a whole number of records of {} bytes; "
                            "fetch it again",
                            path, bytes.size(), kRecordBytes));
  }
  samples.pixels.reserve(samples.pixels.size() + bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    const auto label = static_cast<uint8_t>(bytes[at]);
    if (label >= samples.classes) {
      return fail(
          Code::invalid,
          fmt::format("{}: record {} has the label {}, but there are {} classes (0 to {}); "
                      "set data.classes, or fetch the file again",
                      path, at / kRecordBytes, label, samples.classes, samples.classes - 1));
    }
    samples.labels.push_back(label);
    samples.pixels.append(bytes.substr(at + 1, kImageBytes));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_cifar10(const DataOptions& options, Split split) {
  const std::vector<std::string> files = file_names(split);
  ASSIGN_OR_RETURN(const fs::path folder, find_folder(options, files.front()));
  Samples samples{.shape = kShape, .classes = options.classes};
  for (const std::string& file : files) {
    const std::string path = (folder / file).string();
    ASSIGN_OR_RETURN(const Bytes bytes, read_data_file(path, options.file_bytes_max));
    RETURN_IF_ERROR(append_batch(path, bytes, samples));
  }
  return std::make_unique<InMemoryDataset>(
      fmt::format("cifar10:{}/{}", folder.string(), split_name(split)), split, std::move(samples));
}

}  // namespace tern
