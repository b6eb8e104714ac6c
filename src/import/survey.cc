#include "import/survey.h"

#include <algorithm>
#include <array>
#include <utility>

#include "import/member_path.h"

namespace tern {
namespace {

// Tiny-ImageNet's words.txt, the largest of them, has 2.7 MB.
constexpr int64_t kTextBytesMax = int64_t{32} << 20;

constexpr std::array<std::string_view, 5> kTexts = {"wnids.txt", "words.txt", "val_annotations.txt",
                                                    "batches.meta.txt", "fine_label_names.txt"};
constexpr std::array<std::string_view, 9> kMarks = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin",
    "train.bin",        "test.bin",         "data_batch_1"};

bool is_archive_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kEndings = {".tar",    ".tar.gz",  ".tgz", ".tar.zst",
                                                        ".tar.xz", ".tar.bz2", ".zip", ".txz"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::optional<std::string> Survey::find(std::string_view name) const {
  std::optional<std::string> best;
  for (const std::string& file : known) {
    const bool ends = file == name || file.ends_with("/" + std::string(name));
    if (ends && (!best || file.size() < best->size())) best = file;
  }
  return best;
}

Result<Survey> survey_files(FileWalk& files) {
  Survey survey;
  RETURN_IF_ERROR(files.walk([&](WalkedFile& file) -> Status {
    ++survey.files;
    const std::string& name = file.name();
    const std::string base = lower_case(base_name(name));
    if (is_image_name(name)) {
      ++survey.images;
      ++survey.image_folders[std::string(folder_name(name))];
    } else if (base.ends_with(".cls")) {
      ++survey.cls_files;
    } else if (is_archive_name(base)) {
      survey.archives.push_back(name);
    } else if (std::find(kMarks.begin(), kMarks.end(), base) != kMarks.end()) {
      survey.known.insert(name);
    } else if (std::find(kTexts.begin(), kTexts.end(), base) != kTexts.end()) {
      survey.known.insert(name);
      if (file.size_bytes() > kTextBytesMax) return {};
      ASSIGN_OR_RETURN(survey.texts[name], file.read(kTextBytesMax));
    }
    return {};
  }));
  return survey;
}

std::vector<std::string> text_lines(BytesView text) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) continue;
    lines.emplace_back(line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1));
  }
  return lines;
}

}  // namespace tern
