#include "import/cifar_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "import/member_path.h"

namespace tern {
namespace {

using VisitSample = std::function<Status(SourceSample)>;

constexpr int64_t kImageBytes = 3 * 32 * 32;
constexpr ImageInfo kImage{.format = ImageFormat::raw, .size = {32, 32}, .channels = 3};

struct Kind {
  std::string name;
  int64_t label_bytes = 1;
  int64_t classes = 10;
  std::vector<std::string> train;
  std::string test;
  std::string class_names;

  int64_t record_bytes() const { return label_bytes + kImageBytes; }
};

Kind cifar10() {
  return {"CIFAR-10",
          1,
          10,
          {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
           "data_batch_5.bin"},
          "test_batch.bin",
          "batches.meta.txt"};
}

Kind cifar100() { return {"CIFAR-100", 2, 100, {"train.bin"}, "test.bin", "fine_label_names.txt"}; }

bool has_cifar10(const Survey& survey) { return survey.find("data_batch_1.bin").has_value(); }
bool has_cifar100(const Survey& survey) {
  return survey.find("train.bin") && survey.find("fine_label_names.txt");
}

// By label; numbers if there is no list.
Result<std::vector<std::string>> read_class_names(const Kind& kind, const Survey& survey,
                                                  const std::string& above,
                                                  const std::string& where) {
  std::vector<std::string> names;
  const auto found = survey.texts.find(above + kind.class_names);
  if (found == survey.texts.end()) {
    for (int64_t i = 0; i < kind.classes; ++i) names.push_back(std::to_string(i));
    return names;
  }
  names = text_lines(found->second);
  const std::set<std::string> different(names.begin(), names.end());
  if (static_cast<int64_t>(names.size()) != kind.classes || different.size() != names.size()) {
    return fail(
        Code::corrupt,
        fmt::format("{}/{} has {} names ({} different ones), {} has {} classes; fetch it "
                    "again",
                    where, found->first, names.size(), different.size(), kind.name, kind.classes));
  }
  return names;
}

class CifarSource final : public Source {
 public:
  CifarSource(std::unique_ptr<FileWalk> files, Kind kind, std::string above,
              std::vector<std::string> names, const SourceOptions& options)
      : files_(std::move(files)),
        kind_(std::move(kind)),
        above_(std::move(above)),
        names_(std::move(names)),
        options_(options) {}

  std::string describe() const override {
    return fmt::format("{}'s binary batches in {}: {} classes, {} train and 1 test file",
                       kind_.name, files_->where(), kind_.classes, kind_.train.size());
  }
  std::string root() const override { return files_->root(); }
  bool has_test_split() const override { return true; }
  std::string version() const override { return files_->version(); }
  int64_t total_bytes() const override { return files_->total_bytes(); }
  int64_t bytes_done() const override { return files_->bytes_done(); }
  int64_t ignored() const override { return ignored_; }
  std::vector<std::string> classes() const override { return names_; }

  // In the order of their numbers, whatever the archive's: the same batches are the same data set.
  // Those that come too soon wait in memory, of which CIFAR's own tar makes it take 120 MB.
  Status scan(const VisitSample& visit) override {
    ignored_ = 0;
    std::vector<std::string> order = kind_.train;
    order.push_back(kind_.test);
    std::map<std::string, Batch> waiting;
    size_t next = 0;  // in the order
    const Status walked = files_->walk([&](WalkedFile& file) -> Status {
      const std::string base(base_name(file.name()));
      const auto place = std::find(order.begin(), order.end(), base);
      if (above_ + base != file.name() || place == order.end()) {
        ++ignored_;
        return {};
      }
      const bool is_given = place < order.begin() + static_cast<std::ptrdiff_t>(next);
      if (is_given || waiting.contains(base)) {
        return fail(Code::corrupt,
                    fmt::format("{} has {} twice; pack it again", files_->where(), file.name()));
      }
      Batch& batch = waiting[base];
      batch.range = file.range();
      ASSIGN_OR_RETURN(batch.bytes, file.read(options_.member_bytes_max));
      for (; next < order.size() && waiting.contains(order[next]); ++next) {
        const Split split = order[next] == kind_.test ? Split::test : Split::train;
        RETURN_IF_ERROR(scan_batch(order[next], waiting[order[next]], split, visit));
        waiting.erase(order[next]);
      }
      return {};
    });
    if (!walked || next == order.size()) return walked;
    return fail(Code::corrupt, fmt::format("{} has no {}{} any more; fetch it again",
                                           files_->where(), above_, order[next]));
  }

 private:
  struct Batch {
    std::optional<FileRange> range;
    Bytes bytes;
  };

  Status scan_batch(const std::string& base, const Batch& batch, Split split,
                    const VisitSample& visit) const {
    const std::string where = files_->where() + "/" + above_ + base;
    const std::optional<FileRange>& range = batch.range;
    const Bytes& bytes = batch.bytes;
    const auto size = static_cast<int64_t>(bytes.size());
    const int64_t record_bytes = kind_.record_bytes();
    if (size == 0 || size % record_bytes != 0) {
      return fail(Code::corrupt,
                  fmt::format("{} has {} bytes, which is not a whole number of records of {} "
                              "bytes; fetch it again",
                              where, size, record_bytes));
    }
    // A folder's file that is gzip came unpacked: its records do not lie in it.
    const bool in_place = range && range->length == size;
    const std::string stem = base.substr(0, base.rfind('.'));
    for (int64_t at = 0; at < size; at += record_bytes) {
      const int64_t number = at / record_bytes;
      const int64_t pixels = at + kind_.label_bytes;
      const auto label = static_cast<uint8_t>(bytes[static_cast<size_t>(pixels - 1)]);
      if (label >= kind_.classes) {
        return fail(Code::corrupt,
                    fmt::format("{}: record {} has the label {}, but there are {} classes; fetch "
                                "it again",
                                where, number, label, kind_.classes));
      }
      SourceSample sample{.name = fmt::format("{}/{:05}", stem, number),
                          .class_name = names_[label],
                          .split = split,
                          .raw = kImage};
      if (in_place) {
        sample.range = FileRange{range->file, range->offset + pixels, kImageBytes};
      } else {
        sample.bytes = bytes.substr(static_cast<size_t>(pixels), kImageBytes);
      }
      RETURN_IF_ERROR(visit(std::move(sample)));
    }
    return {};
  }

  const std::unique_ptr<FileWalk> files_;
  const Kind kind_;
  const std::string above_;
  const std::vector<std::string> names_;
  const SourceOptions options_;
  int64_t ignored_ = 0;
};

}  // namespace

bool looks_like_cifar(const Survey& survey) { return has_cifar10(survey) || has_cifar100(survey); }

Result<std::unique_ptr<Source>> open_cifar(std::unique_ptr<FileWalk> files, const Survey& survey,
                                           const SourceOptions& options) {
  const std::string where = files->where();
  if (has_cifar10(survey) && has_cifar100(survey)) {
    return fail(Code::invalid,
                fmt::format("{} has both CIFAR-10 ({}) and CIFAR-100 ({}); give the "
                            "folder of one",
                            where, *survey.find("data_batch_1.bin"), *survey.find("train.bin")));
  }
  Kind kind = has_cifar10(survey) ? cifar10() : cifar100();
  const std::string first = *survey.find(kind.train.front());
  const std::string above = first.substr(0, first.size() - kind.train.front().size());
  std::vector<std::string> needed = kind.train;
  needed.push_back(kind.test);
  for (const std::string& file : needed) {
    if (survey.known.contains(above + file)) continue;
    return fail(Code::invalid, fmt::format("{} has {} of {}, but not {}{}; fetch the binary "
                                           "version again",
                                           where, first, kind.name, above, file));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, read_class_names(kind, survey, above, where));
  return std::make_unique<CifarSource>(std::move(files), std::move(kind), above, std::move(names),
                                       options);
}

}  // namespace tern
