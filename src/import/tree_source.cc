#include "import/tree_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "import/member_path.h"
#include "import/sample_names.h"

namespace tern {
namespace {

constexpr std::array<std::string_view, 4> kTestFolders = {"val", "valid", "validation", "test"};
using Folders = std::map<std::string, int64_t>;

bool is_split_folder(std::string_view part) {
  const std::string name = lower_case(part);
  return name == "train" ||
         std::find(kTestFolders.begin(), kTestFolders.end(), name) != kTestFolders.end();
}

// The folder right below `above` with that name, in any case, as it is written; or nothing.
std::string find_split(const Folders& folders, const std::string& above, std::string_view name) {
  for (const auto& [folder, images] : folders) {
    if (!folder.starts_with(above)) continue;
    const std::string_view part = first_part(std::string_view(folder).substr(above.size()));
    if (lower_case(part) == name) return above + std::string(part) + "/";
  }
  return {};
}

// The folders above all classes and splits: "photos/" of photos/cats and photos/dogs.
std::string shared_folders(const Folders& folders) {
  std::string shared;
  while (true) {
    const auto below = [&](const auto& entry) {
      return std::string_view(entry.first).substr(std::min(shared.size(), entry.first.size()));
    };
    const std::string_view first = first_part(below(*folders.rbegin()));
    if (first.empty() || is_split_folder(first)) return shared;
    const std::string next = shared + std::string(first) + "/";
    // Images right in it make it a class, unless it has train/: then they are strays.
    const bool has_splits = !find_split(folders, next, "train").empty();
    for (const auto& folder : folders) {
      const std::string_view rest = below(folder);
      if (first_part(rest) != first && !(has_splits && rest.empty())) return shared;
      if (after_first_part(rest).empty() && !has_splits) return shared;
    }
    shared = next;
  }
}

// How many images each class below `above` has.
Folders count_classes(const Folders& folders, const std::string& above) {
  Folders classes;
  for (const auto& [folder, images] : folders) {
    if (!folder.starts_with(above) || folder.size() == above.size()) continue;
    classes[std::string(first_part(std::string_view(folder).substr(above.size())))] += images;
  }
  return classes;
}

int64_t sum(const Folders& classes) {
  int64_t images = 0;
  for (const auto& [name, count] : classes) images += count;
  return images;
}

// One sample's place in the tree.
struct Place {
  Split split;
  std::string_view name;  // below the split: "ants/1.jpg"
};

class TreeSource final : public Source {
 public:
  TreeSource(std::unique_ptr<FileWalk> files, TreeLayout layout, const SourceOptions& options)
      : files_(std::move(files)), layout_(std::move(layout)), options_(options) {}

  std::string describe() const override;
  std::string root() const override { return files_->root(); }
  bool has_test_split() const override { return !layout_.test.empty(); }
  std::string version() const override { return files_->version(); }
  int64_t total_bytes() const override { return files_->total_bytes(); }
  int64_t bytes_done() const override { return files_->bytes_done(); }
  int64_t ignored() const override { return ignored_; }

  Status scan(const std::function<Status(SourceSample)>& visit) override {
    ignored_ = 0;
    UniqueNames names;
    return files_->walk([&](WalkedFile& file) -> Status {
      const std::optional<Place> place = find_place(file.name());
      if (!place) {
        ++ignored_;
        return {};
      }
      SourceSample sample{.name = std::string(place->name), .split = place->split};
      sample.class_name = std::string(first_part(place->name));
      if (file.problem().empty()) {
        RETURN_IF_ERROR(names.add(sample, files_->where() + "/" + file.name()));
      }
      RETURN_IF_ERROR(fill_sample(file, files_->where(), options_.member_bytes_max, sample));
      return visit(std::move(sample));
    });
  }

 private:
  std::optional<Place> find_place(std::string_view path) const {
    if (!is_image_name(path)) return {};
    // Test first: without a split of its own, train's folder holds everything.
    for (const auto& [above, split] :
         {std::pair(&layout_.test, Split::test), std::pair(&layout_.train, Split::train)}) {
      if (split == Split::test && above->empty()) continue;
      if (!path.starts_with(*above)) continue;
      const std::string_view name = path.substr(above->size());
      if (after_first_part(name).empty()) return {};  // beside the class folders
      const bool divide = layout_.test.empty();
      return Place{divide ? split_by_name(name, options_.test_share) : split, name};
    }
    return {};
  }

  const std::unique_ptr<FileWalk> files_;
  const TreeLayout layout_;
  const SourceOptions options_;
  int64_t ignored_ = 0;
};

std::string TreeSource::describe() const {
  std::string text = fmt::format("a folder per class in {}: {} classes, {} images", files_->where(),
                                 layout_.classes, layout_.train_images + layout_.test_images);
  if (!layout_.test.empty()) {
    text += fmt::format(" ({} in {}, {} in {})", layout_.train_images, layout_.train,
                        layout_.test_images, layout_.test);
  } else if (options_.test_share > 0) {
    text += fmt::format(", {:g} % of them for test, chosen by name", 100 * options_.test_share);
  } else {
    text += ", no test split";
  }
  if (!layout_.classes_without_train.empty()) {
    text += fmt::format("; warning: not in {}: {}", layout_.train, layout_.classes_without_train);
  }
  if (files_->links_left_out() > 0) {
    const int64_t links = files_->links_left_out();
    text += fmt::format(
        "; warning: {} not followed; give the folder itself",
        links == 1 ? "1 link to a folder is" : fmt::format("{} links to folders are", links));
  }
  return text;
}

}  // namespace

Result<TreeLayout> find_tree_layout(const Survey& survey, const std::string& where) {
  const Folders& folders = survey.image_folders;
  if (folders.empty()) {
    return fail(Code::invalid, fmt::format("{} has no .jpg, .jpeg or .png among {} file{}; give "
                                           "what has a folder of images per class",
                                           where, survey.files, survey.files == 1 ? "" : "s"));
  }
  TreeLayout layout;
  const std::string above = shared_folders(folders);
  layout.train = find_split(folders, above, "train");
  for (const std::string_view name : kTestFolders) {
    if (layout.test.empty()) layout.test = find_split(folders, above, name);
  }
  const bool has_only_splits = std::all_of(folders.begin(), folders.end(), [&](const auto& folder) {
    return folder.first.starts_with(above) &&
           is_split_folder(first_part(std::string_view(folder.first).substr(above.size())));
  });
  if (layout.train.empty() && has_only_splits) {
    return fail(Code::invalid, fmt::format("{} has {} but no train/ beside it; give the folder "
                                           "that has both",
                                           where, layout.test));
  }
  if (layout.train.empty()) {  // "test" is then a class like any other
    layout.train = above;
    layout.test.clear();
  }
  const Folders train = count_classes(folders, layout.train);
  const Folders test = layout.test.empty() ? Folders() : count_classes(folders, layout.test);
  std::set<std::string> classes;
  for (const auto& [name, images] : train) classes.insert(name);
  for (const auto& [name, images] : test) {
    if (!classes.insert(name).second || layout.classes_without_train.size() > 60) continue;
    layout.classes_without_train += (layout.classes_without_train.empty() ? "" : ", ") + name;
  }
  if (classes.size() < 2) {
    return fail(Code::invalid,
                fmt::format("{} has images in {}; there must be two or more folders, one per "
                            "class, right in it or below train/ and val/",
                            where,
                            classes.empty() ? std::string("no class folder")
                                            : "one class folder only, " + *classes.begin()));
  }
  layout.classes = static_cast<int64_t>(classes.size());
  layout.train_images = sum(train);
  layout.test_images = sum(test);
  return layout;
}

Result<std::unique_ptr<Source>> open_tree(std::unique_ptr<FileWalk> files, const Survey& survey,
                                          const SourceOptions& options) {
  ASSIGN_OR_RETURN(TreeLayout layout, find_tree_layout(survey, files->where()));
  return std::make_unique<TreeSource>(std::move(files), std::move(layout), options);
}

}  // namespace tern
