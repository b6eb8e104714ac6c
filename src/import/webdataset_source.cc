#include "import/webdataset_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "import/archive.h"
#include "import/files_version.h"
#include "import/member_path.h"
#include "import/sample_names.h"
#include "import/survey.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using VisitSample = std::function<Status(SourceSample)>;

// A label is a few digits.
constexpr int64_t kClassBytesMax = 64;

std::optional<Split> split_by_words(std::string_view text) {
  const std::string name = lower_case(text);
  if (name.find("train") != std::string::npos) return Split::train;
  if (name.find("val") != std::string::npos || name.find("test") != std::string::npos) {
    return Split::test;
  }
  return {};
}

// "7" of " 7\n".
Result<std::string> parse_class(BytesView text) {
  const std::vector<std::string> lines = text_lines(text);
  uint64_t number = 0;
  if (lines.size() == 1) {
    const char* end = lines[0].data() + lines[0].size();
    const auto [stop, error] = std::from_chars(lines[0].data(), end, number);
    if (error == std::errc() && stop == end) return std::to_string(number);
  }
  return fail(Code::corrupt, "is not a number; a .cls file holds the class as decimal digits");
}

// The members that belong together; given away when the next key begins.
struct Group {
  std::string key;
  std::string image;  // member's name; empty: not seen yet
  SourceSample sample;
  bool has_class = false;
};

class WebDatasetSource final : public Source {
 public:
  WebDatasetSource(fs::path root, std::vector<std::string> shards, std::vector<int64_t> sizes,
                   const SourceOptions& options)
      : root_(std::move(root)),
        shards_(std::move(shards)),
        sizes_(std::move(sizes)),
        options_(options),
        has_test_(std::any_of(shards_.begin(), shards_.end(), [](const std::string& shard) {
          return split_of_shard(shard) == Split::test;
        })) {}

  std::string describe() const override {
    const auto test = std::count_if(shards_.begin(), shards_.end(), [](const std::string& shard) {
      return split_of_shard(shard) == Split::test;
    });
    return fmt::format("WebDataset shards in {}: {} for train, {} for test", root_.string(),
                       static_cast<int64_t>(shards_.size()) - test, test);
  }
  std::string root() const override { return root_.string(); }
  bool has_test_split() const override { return has_test_; }
  std::string version() const override {
    FilesVersion version;
    for (const std::string& shard : shards_) version.add(root_ / shard);
    return version.finish();
  }
  int64_t total_bytes() const override {
    int64_t bytes = 0;
    for (const int64_t size : sizes_) bytes += size;
    return bytes;
  }
  int64_t bytes_done() const override { return shards_done_bytes_ + shard_done_bytes_; }
  int64_t ignored() const override { return ignored_; }

  Status scan(const VisitSample& visit) override {
    ignored_ = shards_done_bytes_ = shard_done_bytes_ = 0;
    UniqueNames names;
    for (size_t i = 0; i < shards_.size(); ++i) {
      RETURN_IF_ERROR(scan_shard(shards_[i], names, visit));
      shards_done_bytes_ += sizes_[i];
      shard_done_bytes_ = 0;
    }
    return {};
  }

 private:
  Status scan_shard(const std::string& shard, UniqueNames& names, const VisitSample& visit);
  Status take_member(const std::string& shard, ArchiveMember& member, Group& group);
  Status take_image(const std::string& shard, ArchiveMember& member, Group& group) const;
  Status give(const std::string& shard, Group group, UniqueNames& names, const VisitSample& visit);

  const fs::path root_;
  const std::vector<std::string> shards_;
  const std::vector<int64_t> sizes_;
  const SourceOptions options_;
  const bool has_test_;
  int64_t ignored_ = 0;
  int64_t shards_done_bytes_ = 0;
  int64_t shard_done_bytes_ = 0;
};

Status WebDatasetSource::scan_shard(const std::string& shard, UniqueNames& names,
                                    const VisitSample& visit) {
  Group group;
  const auto take = [&](ArchiveMember& member) -> Status {
    const std::string& name = member.name();
    if (is_hidden_path(name)) return {};
    const size_t base = name.size() - base_name(name).size();
    const std::string key = name.substr(0, name.find('.', base));
    if (key != group.key) {
      RETURN_IF_ERROR(give(shard, std::exchange(group, Group{.key = key}), names, visit));
    }
    return take_member(shard, member, group);
  };
  RETURN_IF_ERROR(walk_archive(root_ / shard, &shard_done_bytes_, take));
  return give(shard, std::move(group), names, visit);
}

Status WebDatasetSource::take_member(const std::string& shard, ArchiveMember& member,
                                     Group& group) {
  const std::string ending = lower_case(member.name().substr(group.key.size()));
  if (ending == ".jpg" || ending == ".jpeg" || ending == ".png") {
    return take_image(shard, member, group);
  }
  if (ending != ".cls") {
    ++ignored_;
    return {};
  }
  const std::string where = (root_ / shard).string() + "/" + member.name();
  ASSIGN_OR_RETURN(const Bytes text, member.read(kClassBytesMax));
  Result<std::string> parsed = parse_class(text);
  if (!parsed) return parsed.error().at(where);
  group.sample.class_name = std::move(*parsed);
  group.has_class = true;
  return {};
}

Status WebDatasetSource::take_image(const std::string& shard, ArchiveMember& member,
                                    Group& group) const {
  if (!group.image.empty()) {
    return fail(Code::corrupt, fmt::format("{}: {} and {} are two images of one sample; keep one",
                                           (root_ / shard).string(), group.image, member.name()));
  }
  group.image = member.name();
  FileOfArchive file(shard, member);
  return fill_sample(file, (root_ / shard).string(), options_.member_bytes_max, group.sample);
}

Status WebDatasetSource::give(const std::string& shard, Group group, UniqueNames& names,
                              const VisitSample& visit) {
  if (group.image.empty()) {
    if (group.has_class) ++ignored_;
    return {};
  }
  const std::string where = (root_ / shard).string() + "/" + group.image;
  if (!group.has_class) {
    return fail(Code::corrupt, fmt::format("{} has no {}.cls right before or after it; pack the "
                                           "shard with both side by side",
                                           where, group.key));
  }
  // Keys are unique in their shard only.
  SourceSample& sample = group.sample;
  sample.name = shard + "/" + group.image;
  sample.split =
      has_test_ ? split_of_shard(shard) : split_by_name(sample.name, options_.test_share);
  RETURN_IF_ERROR(names.add(sample, where));
  return visit(std::move(sample));
}

}  // namespace

Split split_of_shard(std::string_view shard) {
  if (const std::optional<Split> split = split_by_words(base_name(shard))) return *split;
  return split_by_words(folder_name(shard)).value_or(Split::train);
}

Result<std::unique_ptr<Source>> open_webdataset(const fs::path& root,
                                                std::vector<std::string> shards,
                                                const SourceOptions& options) {
  std::vector<int64_t> sizes;
  for (const std::string& shard : shards) {
    std::error_code error;
    sizes.push_back(static_cast<int64_t>(fs::file_size(root / shard, error)));
    if (error) {
      return fail(Code::unavailable, fmt::format("cannot read {}: {}; check the disk it is on",
                                                 (root / shard).string(), error.message()));
    }
  }
  return std::make_unique<WebDatasetSource>(root, std::move(shards), std::move(sizes), options);
}

}  // namespace tern
