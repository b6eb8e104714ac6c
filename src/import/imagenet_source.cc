#include "import/imagenet_source.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "import/archive.h"
#include "import/files_version.h"
#include "import/mat_file.h"
#include "import/member_path.h"
#include "import/sample_names.h"
#include "import/survey.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using VisitSample = std::function<Status(SourceSample)>;

constexpr char kTrain[] = "ILSVRC2012_img_train.tar";
constexpr char kVal[] = "ILSVRC2012_img_val.tar";
constexpr char kDevkit[] = "ILSVRC2012_devkit_t12.tar.gz";
constexpr double kLastClassId = 1000;
// meta.mat has 1.2 MB, the ground truth 0.2 MB.
constexpr int64_t kDevkitFileBytesMax = int64_t{16} << 20;

bool has_file(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

int64_t file_bytes(const fs::path& file) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(file, error));
  return error ? 0 : bytes;
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || text.empty()) return {};
  return number;
}

Result<ImagenetLabels> read_devkit(const fs::path& file) {
  std::optional<Bytes> meta, truth;
  const auto take = [&](ArchiveMember& member) -> Status {
    const bool is_meta = member.name().ends_with("data/meta.mat");
    if (!is_meta && !member.name().ends_with("data/ILSVRC2012_validation_ground_truth.txt")) {
      return {};
    }
    ASSIGN_OR_RETURN((is_meta ? meta : truth), member.read(kDevkitFileBytesMax));
    return {};
  };
  RETURN_IF_ERROR(walk_archive(file, nullptr, take));
  if (!meta || !truth) {
    return fail(Code::corrupt,
                fmt::format("{} lacks data/{}; download it again from image-net.org", file.string(),
                            meta ? "ILSVRC2012_validation_ground_truth.txt" : "meta.mat"));
  }
  return parse_imagenet_labels(*meta, *truth).at(file.string());
}

class ImagenetSource final : public Source {
 public:
  ImagenetSource(fs::path folder, ImagenetLabels labels, const SourceOptions& options)
      : folder_(std::move(folder)),
        labels_(std::move(labels)),
        options_(options),
        has_val_(has_file(folder_, kVal)),
        train_bytes_(file_bytes(folder_ / kTrain)),
        val_bytes_(has_val_ ? file_bytes(folder_ / kVal) : 0) {}

  std::string describe() const override {
    std::string text = fmt::format("ImageNet-2012 in {}: train tar, ", folder_.string());
    text += has_val_ ? "validation tar, devkit" : "devkit";
    text += fmt::format("; {} classes", labels_.titles.size());
    if (!has_val_) {
      text += fmt::format(
          "; warning: {} is missing, so the test split is {}; download it from "
          "image-net.org to have it",
          kVal, options_.test_share > 0 ? "taken from train" : "empty");
    }
    return text;
  }
  std::string root() const override { return folder_.string(); }
  bool has_test_split() const override { return has_val_; }
  std::string version() const override {
    FilesVersion version;
    for (const char* file : {kTrain, kVal, kDevkit}) version.add(folder_ / file);
    return version.finish();
  }
  int64_t total_bytes() const override { return train_bytes_ + val_bytes_; }
  int64_t bytes_done() const override { return train_done_ + val_done_; }
  int64_t ignored() const override { return ignored_; }
  std::vector<std::string> classes() const override {
    std::vector<std::string> wnids;
    for (const auto& [wnid, title] : labels_.titles) wnids.push_back(wnid);
    return wnids;
  }
  std::vector<std::pair<std::string, std::string>> class_titles() const override {
    return {labels_.titles.begin(), labels_.titles.end()};
  }

  Status scan(const VisitSample& visit) override {
    ignored_ = train_done_ = val_done_ = 0;
    UniqueNames names;
    RETURN_IF_ERROR(scan_train(names, visit));
    if (!has_val_) return {};
    return walk_archive(folder_ / kVal, &val_done_, [&](ArchiveMember& member) -> Status {
      return take_val(member, names, visit);
    });
  }

 private:
  Status scan_train(UniqueNames& names, const VisitSample& visit);
  Status take_val(ArchiveMember& member, UniqueNames& names, const VisitSample& visit);
  // `sample` has its class and split.
  Status give(const char* file, ArchiveMember& member, SourceSample sample, UniqueNames& names,
              const VisitSample& visit) const;

  const fs::path folder_;
  const ImagenetLabels labels_;
  const SourceOptions options_;
  const bool has_val_;
  const int64_t train_bytes_;
  const int64_t val_bytes_;
  int64_t ignored_ = 0;
  int64_t train_done_ = 0;
  int64_t val_done_ = 0;
};

Status ImagenetSource::scan_train(UniqueNames& names, const VisitSample& visit) {
  const auto take_class = [&](ArchiveMember& inner) -> Status {
    const std::string base(base_name(inner.name()));
    if (is_hidden_path(inner.name()) || !base.ends_with(".tar")) {
      ++ignored_;
      return {};
    }
    const std::string wnid = base.substr(0, base.size() - 4);
    if (!labels_.titles.contains(wnid)) {
      return fail(Code::corrupt, fmt::format("{}/{}: {} is none of the classes in {}; download "
                                             "both again from image-net.org",
                                             (folder_ / kTrain).string(), inner.name(),
                                             printable_path(wnid), kDevkit));
    }
    return inner.walk([&](ArchiveMember& member) -> Status {
      if (!is_image_name(member.name()) || is_hidden_path(member.name())) {
        ++ignored_;
        return {};
      }
      SourceSample sample{.class_name = wnid};
      sample.name = wnid + "/" + std::string(base_name(member.name()));
      if (!has_val_) sample.split = split_by_name(sample.name, options_.test_share);
      return give(kTrain, member, std::move(sample), names, visit);
    });
  };
  return walk_archive(folder_ / kTrain, &train_done_, take_class);
}

// ILSVRC2012_val_00000001.JPEG has the label of the first line.
Status ImagenetSource::take_val(ArchiveMember& member, UniqueNames& names,
                                const VisitSample& visit) {
  if (!is_image_name(member.name()) || is_hidden_path(member.name())) {
    ++ignored_;
    return {};
  }
  const std::string_view base = base_name(member.name());
  const std::string_view stem = base.substr(0, base.find('.'));
  const std::optional<int64_t> number = parse_number(stem.substr(stem.rfind('_') + 1));
  if (!number || *number < 1 || *number > static_cast<int64_t>(labels_.val.size())) {
    return fail(Code::corrupt,
                fmt::format("{}/{}: the development kit has labels of images 1 to "
                            "{}, and this is none of them; download both again "
                            "from image-net.org",
                            (folder_ / kVal).string(), member.name(), labels_.val.size()));
  }
  SourceSample sample{.split = Split::test};
  sample.class_name = labels_.val[static_cast<size_t>(*number - 1)];
  sample.name = sample.class_name + "/" + std::string(base);
  return give(kVal, member, std::move(sample), names, visit);
}

Status ImagenetSource::give(const char* file, ArchiveMember& member, SourceSample sample,
                            UniqueNames& names, const VisitSample& visit) const {
  const std::string where = (folder_ / file).string();
  RETURN_IF_ERROR(names.add(sample, where + "/" + sample.name));
  FileOfArchive walked(file, member);
  RETURN_IF_ERROR(fill_sample(walked, where, options_.member_bytes_max, sample));
  return visit(std::move(sample));
}

Error missing(const fs::path& folder, const char* file) {
  return fail(Code::invalid,
              fmt::format("{} lacks {}; download it from https://image-net.org/download-images "
                          "(an account is needed) into the same folder, then type the same "
                          "command again",
                          folder.string(), file));
}

}  // namespace

Result<ImagenetLabels> parse_imagenet_labels(BytesView meta_mat, BytesView val_ground_truth) {
  const Result<std::vector<MatStruct>> synsets = read_mat_structs(meta_mat, "synsets");
  if (!synsets) return synsets.error().at("meta.mat");
  ImagenetLabels labels;
  std::map<int64_t, std::string> wnid_by_id;
  for (const MatStruct& synset : *synsets) {
    const auto id = synset.find("ILSVRC2012_ID");
    const auto wnid = synset.find("WNID");
    const auto words = synset.find("words");
    if (id == synset.end() || !id->second.is_number || wnid == synset.end() ||
        !wnid->second.is_text) {
      return fail(Code::corrupt,
                  "meta.mat: a synset without ILSVRC2012_ID or WNID; fetch it again");
    }
    if (!(id->second.number >= 1 && id->second.number <= kLastClassId)) continue;
    const bool is_new =
        labels.titles.emplace(wnid->second.text, words == synset.end() ? "" : words->second.text)
            .second &&
        wnid_by_id.emplace(static_cast<int64_t>(id->second.number), wnid->second.text).second;
    if (!is_new || !clean_member_path(wnid->second.text)) {
      return fail(Code::corrupt, fmt::format("meta.mat: the synset {} comes twice or has no proper "
                                             "name; fetch it again",
                                             printable_path(wnid->second.text)));
    }
  }
  if (labels.titles.size() < 2) {
    return fail(Code::corrupt, "meta.mat: has fewer than two classes; fetch it again");
  }
  for (const std::string& line : text_lines(val_ground_truth)) {
    const std::optional<int64_t> id = parse_number(line);
    const auto found = id ? wnid_by_id.find(*id) : wnid_by_id.end();
    if (found == wnid_by_id.end()) {
      return fail(Code::corrupt,
                  fmt::format("ILSVRC2012_validation_ground_truth.txt: line {} is '{}', no class "
                              "of meta.mat; fetch it again",
                              labels.val.size() + 1, printable_path(line)));
    }
    labels.val.push_back(found->second);
  }
  return labels;
}

bool looks_like_imagenet(const fs::path& folder) {
  return has_file(folder, kTrain) || has_file(folder, kVal) || has_file(folder, kDevkit);
}

Result<std::unique_ptr<Source>> open_imagenet(const fs::path& folder,
                                              const SourceOptions& options) {
  for (const char* file : {kTrain, kDevkit}) {
    if (!has_file(folder, file)) return missing(folder, file);
  }
  ASSIGN_OR_RETURN(ImagenetLabels labels, read_devkit(folder / kDevkit));
  return std::make_unique<ImagenetSource>(folder, std::move(labels), options);
}

}  // namespace tern
