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
  StoreFiles(std::shared_ptr<ObjectStore> store, std::string place, const DatasetIndex& index)
      : store_(std::move(store)), place_(std::move(place)), index_(index) {}

  Status read(int64_t file, int64_t offset, int64_t length, Bytes& buffer) const override {
    const StoredRange range{file, offset, length};
    ASSIGN_OR_RETURN(const std::string name, name_of(file));
    ASSIGN_OR_RETURN(buffer, judge(range, name, store_->get_range(name, offset, length)));
    return {};
  }

  std::vector<Result<Bytes>> read_many(std::span<const StoredRange> ranges) const override {
    std::vector<ObjectRange> wanted;
    for (const StoredRange& range : ranges) {
      const Result<std::string> name = name_of(range.file);
      if (!name) return {};  // read() says why
      wanted.push_back({*name, range.offset, range.length});
    }
    std::vector<Result<Bytes>> all = store_->get_ranges(wanted);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = judge(ranges[i], wanted[i].name, std::move(all[i]));
    }
    return all;
  }

  std::string where(int64_t file) const override {
    return fmt::format("{}/{}", place_, index_.file_path(file));
  }

 private:
  Result<std::string> name_of(int64_t file) const {
    RETURN_IF_ERROR(check_file_path(index_.file_path(file)));
    return std::string(index_.file_path(file));
  }

  Result<Bytes> judge(const StoredRange& range, const std::string& name,
                      Result<Bytes> bytes) const {
    if (bytes && static_cast<int64_t>(bytes->size()) == range.length) return bytes;
    const std::string doing = fmt::format("read {} bytes at offset {} of {}", range.length,
                                          range.offset, where(range.file));
    // An offset past the end is all that a store can call `invalid` about a good name.
    const bool begins_past_end =
        !bytes && bytes.error().code == Code::invalid && check_object_name(name).has_value();
    if (!bytes && !begins_past_end) return bytes.error().at(doing);
    return fail(Code::corrupt,
                fmt::format("{}: the object ends before; copy it to the store again", doing));
  }

  const std::shared_ptr<ObjectStore> store_;
  const std::string place_;  // for messages
  const DatasetIndex& index_;
};

}  // namespace

std::unique_ptr<SampleFiles> open_folder_files(std::string folder, const DatasetIndex& index,
                                               int64_t open_files_max) {
  return std::make_unique<FolderFiles>(std::move(folder), index, open_files_max);
}

std::unique_ptr<SampleFiles> open_store_files(std::shared_ptr<ObjectStore> store, std::string place,
                                              const DatasetIndex& index) {
  return std::make_unique<StoreFiles>(std::move(store), std::move(place), index);
}

}  // namespace tern
