#include "import/tiny_imagenet_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/member_path.h"
#include "import/sample_names.h"

namespace tern {
namespace {

using Titles = std::vector<std::pair<std::string, std::string>>;

// The lists that come with the images.
struct Lists {
  std::string above;                                         // "tiny-imagenet-200/", or empty
  std::set<std::string> wnids;                               // sorted
  Titles titles;                                             // from words.txt
  std::unordered_map<std::string, std::string> annotations;  // val_0.JPEG: n03444034
};

// "n03444034 <tab> rest": both parts; the second is empty without a tab.
std::pair<std::string, std::string> cut_at_tab(const std::string& line) {
  const size_t tab = line.find('\t');
  if (tab == std::string::npos) return {line, ""};
  return {line.substr(0, tab), line.substr(tab + 1)};
}

Result<Lists> read_lists(const Survey& survey, const std::string& where) {
  Lists lists;
  const std::string wnids_file = *survey.find("wnids.txt");
  lists.above = wnids_file.substr(0, wnids_file.size() - base_name(wnids_file).size());
  const auto text = [&](const std::string& name) -> BytesView {
    const auto found = survey.texts.find(lists.above + name);
    return found == survey.texts.end() ? BytesView() : BytesView(found->second);
  };
  for (std::string& wnid : text_lines(text("wnids.txt"))) lists.wnids.insert(std::move(wnid));
  if (lists.wnids.size() < 2) {
    return fail(Code::corrupt, fmt::format("{}/{} names {} classes; fetch it again", where,
                                           wnids_file, lists.wnids.size()));
  }
  for (const std::string& line : text_lines(text("words.txt"))) {
    std::pair<std::string, std::string> title = cut_at_tab(line);
    if (lists.wnids.contains(title.first)) lists.titles.push_back(std::move(title));
  }
  for (const std::string& line : text_lines(text("val/val_annotations.txt"))) {
    const auto [file, rest] = cut_at_tab(line);
    const std::string wnid = cut_at_tab(rest).first;
    if (!lists.wnids.contains(wnid)) {
      return fail(Code::corrupt,
                  fmt::format("{}/{}val/val_annotations.txt gives {} the class '{}', which is not "
                              "in wnids.txt; fetch the data set again",
                              where, lists.above, printable_path(file), printable_path(wnid)));
    }
    lists.annotations[file] = wnid;
  }
  return lists;
}

class TinyImagenetSource final : public Source {
 public:
  TinyImagenetSource(std::unique_ptr<FileWalk> files, Lists lists, int64_t images,
                     const SourceOptions& options)
      : files_(std::move(files)), lists_(std::move(lists)), images_(images), options_(options) {}

  std::string describe() const override {
    return fmt::format("Tiny-ImageNet's layout in {}: {} classes, {} images, of which {} in val",
                       files_->where(), lists_.wnids.size(), images_, lists_.annotations.size());
  }
  std::string root() const override { return files_->root(); }
  bool has_test_split() const override { return true; }
  std::string version() const override { return files_->version(); }
  int64_t total_bytes() const override { return files_->total_bytes(); }
  int64_t bytes_done() const override { return files_->bytes_done(); }
  int64_t ignored() const override { return ignored_; }
  std::vector<std::string> classes() const override {
    return {lists_.wnids.begin(), lists_.wnids.end()};
  }
  Titles class_titles() const override { return lists_.titles; }

  Status scan(const std::function<Status(SourceSample)>& visit) override {
    ignored_ = 0;
    UniqueNames names;
    return files_->walk([&](WalkedFile& file) -> Status {
      const std::string where = files_->where() + "/" + file.name();
      SourceSample sample;
      Result<bool> found = label_sample(file.name(), sample);
      if (!found) return found.error().at(where);
      if (!*found) {
        ++ignored_;
        return {};
      }
      sample.name = sample.class_name + "/" + std::string(base_name(file.name()));
      RETURN_IF_ERROR(names.add(sample, where));
      RETURN_IF_ERROR(fill_sample(file, files_->where(), options_.member_bytes_max, sample));
      return visit(std::move(sample));
    });
  }

 private:
  // False: no sample.
  Result<bool> label_sample(std::string_view path, SourceSample& sample) const {
    if (!path.starts_with(lists_.above) || !is_image_name(path)) return false;
    const std::string_view below = path.substr(lists_.above.size());
    const std::string_view rest = after_first_part(below);
    if (first_part(below) == "train") {
      sample.class_name = std::string(first_part(rest));
      if (lists_.wnids.contains(sample.class_name)) return true;
      return fail(Code::corrupt, fmt::format("the class '{}' is not in wnids.txt; fetch the data "
                                             "set again",
                                             printable_path(sample.class_name)));
    }
    if (first_part(below) != "val") return false;
    sample.split = Split::test;
    const auto found = lists_.annotations.find(std::string(base_name(path)));
    if (found == lists_.annotations.end()) {
      return fail(Code::corrupt, "it has no line in val_annotations.txt; fetch the data set again");
    }
    sample.class_name = found->second;
    return true;
  }

  const std::unique_ptr<FileWalk> files_;
  const Lists lists_;
  const int64_t images_;
  const SourceOptions options_;
  int64_t ignored_ = 0;
};

}  // namespace

bool looks_like_tiny_imagenet(const Survey& survey) {
  const std::optional<std::string> wnids = survey.find("wnids.txt");
  if (!wnids) return false;
  const std::string above = wnids->substr(0, wnids->size() - base_name(*wnids).size());
  return survey.texts.contains(*wnids) && survey.texts.contains(above + "val/val_annotations.txt");
}

Result<std::unique_ptr<Source>> open_tiny_imagenet(std::unique_ptr<FileWalk> files,
                                                   const Survey& survey,
                                                   const SourceOptions& options) {
  ASSIGN_OR_RETURN(Lists lists, read_lists(survey, files->where()));
  // test/ has images, but no labels.
  int64_t images = 0;
  for (const auto& [folder, count] : survey.image_folders) {
    const bool is_labelled =
        folder.starts_with(lists.above + "train/") || folder.starts_with(lists.above + "val/");
    if (is_labelled) images += count;
  }
  if (images == 0) {
    return fail(
        Code::invalid,
        fmt::format("{} has Tiny-ImageNet's lists but no images; fetch it again", files->where()));
  }
  return std::make_unique<TinyImagenetSource>(std::move(files), std::move(lists), images, options);
}

}  // namespace tern
