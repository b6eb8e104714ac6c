#include "import/import_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "import/class_order.h"

namespace tern {
namespace {

constexpr uint8_t kProgressive = 1;  // IndexEntry::flags

IndexEntry entry_of(const ShardRecord& record, uint32_t file, uint32_t class_number) {
  return {.offset = record.offset,
          .length = record.length,
          .crc32c = record.crc32c,
          .file = file,
          .label = class_number,
          .width = static_cast<uint16_t>(record.info.size.width),
          .height = static_cast<uint16_t>(record.info.size.height),
          .format = static_cast<uint8_t>(record.info.format),
          .channels = record.info.channels,
          .orientation = record.info.orientation,
          .flags = record.info.is_progressive ? kProgressive : uint8_t{0}};
}

}  // namespace

uint32_t ImportIndex::add_file(const std::string& path, int64_t size_bytes) {
  const auto [at, is_new] = file_numbers_.try_emplace(path, static_cast<uint32_t>(files_.size()));
  if (is_new) files_.push_back({.path = path, .size_bytes = size_bytes});
  return at->second;
}

uint32_t ImportIndex::class_number(const std::string& name) {
  const auto number = static_cast<uint32_t>(classes_.size());
  const auto [at, is_new] = class_numbers_.try_emplace(name, number);
  if (is_new) classes_.push_back(name);
  return at->second;
}

void ImportIndex::add(const ShardRecord& record, uint32_t file) {
  const uint32_t number = class_number(record.class_name);  // also of a class that is all bad
  if (!record.bad_cause.empty()) {
    bad_.push_back({.name = record.name, .cause = record.bad_cause});
    return;
  }
  Part& part = record.split == Split::train ? train_ : test_;
  part.entries.push_back(entry_of(record, file, number));
  part.names.push_back(record.name);
}

int64_t ImportIndex::good() const {
  return static_cast<int64_t>(train_.entries.size() + test_.entries.size());
}

Status ImportIndex::check_not_empty() const {
  if (good() > 0) return {};
  if (bad_.empty()) {
    return fail(Code::not_found,
                "the source has no samples; `tern data import --help` says which "
                "layouts are understood");
  }
  return fail(Code::corrupt,
              fmt::format("none of {} can be used; the first is {}: {}; check what the files are",
                          bad_.size() == 1 ? "1 sample" : fmt::format("{} samples", bad_.size()),
                          bad_[0].name, bad_[0].cause));
}

Result<IndexContent> ImportIndex::finish(const Source& source) {
  RETURN_IF_ERROR(check_not_empty());
  ASSIGN_OR_RETURN(ClassOrder order, order_classes(classes_, source.classes()));
  IndexContent content;
  content.train_samples = static_cast<int64_t>(train_.entries.size());
  content.entries = std::move(train_.entries);
  content.names = std::move(train_.names);
  std::ranges::copy(test_.entries, std::back_inserter(content.entries));
  std::ranges::move(test_.names, std::back_inserter(content.names));
  for (IndexEntry& entry : content.entries) entry.label = order.labels[entry.label];
  content.files = std::move(files_);
  content.about.class_titles = order_titles(order.names, source.class_titles());
  content.about.classes = std::move(order.names);
  content.about.bad = std::move(bad_);
  *this = ImportIndex();
  return content;
}

}  // namespace tern
