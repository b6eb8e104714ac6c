#include "dataset/sample_files.h"

#include <fmt/format.h>

#include <utility>

#include "dataset/open_files.h"

namespace tern {
namespace {

class FolderFiles final : public SampleFiles {
 public:
  FolderFiles(std::string folder, const DatasetIndex& index, int64_t open_files_max)
      : folder_(std::move(folder)),
        index_(index),
        files_([this](int64_t file) { return path_of(file); }, open_files_max) {}

  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const override {
    return files_.read(file, offset, length, buffer);
  }

  std::string where(int64_t file) const override {
    return fmt::format("{}/{}", folder_, index_.file_path(file));
  }

 private:
  Result<std::string> path_of(int64_t file) const {
    RETURN_IF_ERROR(check_file_path(index_.file_path(file)));
    return where(file);
  }

  const std::string folder_;
  const DatasetIndex& index_;
  mutable OpenFiles files_;
};

class StoreFiles final : public SampleFiles {
 public:
  StoreFiles(ObjectStore& store, std::string prefix, const DatasetIndex& index)
      : store_(store), prefix_(std::move(prefix)), index_(index) {}

  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const override {
    RETURN_IF_ERROR(check_file_path(index_.file_path(file)));
    const std::string name = where(file);
    const std::string doing = fmt::format("read {} bytes at offset {} of {}", length, offset, name);
    Result<Bytes> bytes = store_.get_range(name, offset, length);
    // An offset past the end is all that a store can call `invalid` about a good name.
    const bool begins_past_end =
        !bytes && bytes.error().code == Code::invalid && check_object_name(name).has_value();
    if (!bytes && !begins_past_end) return bytes.error().at(doing);
    if (begins_past_end || static_cast<int64_t>(bytes->size()) != length) {
      return fail(Code::corrupt,
                  fmt::format("{}: the object ends before; copy it to the store again", doing));
    }
    buffer = std::move(bytes).value();
    return {};
  }

  std::string where(int64_t file) const override {
    return fmt::format("{}{}", prefix_, index_.file_path(file));
  }

 private:
  ObjectStore& store_;
  const std::string prefix_;
  const DatasetIndex& index_;
};

}  // namespace

std::unique_ptr<SampleFiles> open_folder_files(std::string folder, const DatasetIndex& index,
                                               int64_t open_files_max) {
  return std::make_unique<FolderFiles>(std::move(folder), index, open_files_max);
}

std::unique_ptr<SampleFiles> open_store_files(ObjectStore& store, std::string prefix,
                                              const DatasetIndex& index) {
  return std::make_unique<StoreFiles>(store, std::move(prefix), index);
}

}  // namespace tern
