#include "dataset/index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "core/crc32c.h"
#include "core/hash.h"
#include "dataset/index_format.h"
#include "storage/file_door.h"

namespace tern {
namespace {

constexpr const char* kSectionNames[] = {"entries", "files", "names", "descriptions"};
// Checksum and checks take turns over this many bytes, so that the second finds them in the cache.
constexpr size_t kBlockEntries = 256;

Error damaged(const std::string& name, const std::string& what) {
  return fail(
      Code::corrupt,
      fmt::format("{} is damaged: {}; copy it again, or import the data set again", name, what));
}

uint16_t load_u16(const char* at) {
  uint16_t number = 0;
  std::memcpy(&number, at, sizeof number);
  return number;
}

// The name that begins at `at`. REQUIRES: it lies within `names`.
std::string_view name_at(BytesView names, uint64_t at) {
  return names.substr(at + 2, load_u16(names.data() + at));
}

bool has_name_at(BytesView names, uint64_t at) {
  if (names.size() < 2 || at > names.size() - 2) return false;
  const uint64_t left = names.size() - 2 - at;
  // The first half is true of all but the last names, so that theirs are not fetched from memory.
  return left >= kSampleNameBytesMax || load_u16(names.data() + at) <= left;
}

// What entries are checked against.
struct Limits {
  const IndexFileRow* rows;
  uint64_t files;
  uint64_t classes;
  BytesView names;
};

bool is_kind_good(const IndexEntry& entry) {
  return entry.format <= static_cast<uint8_t>(ImageFormat::png) &&
         (entry.channels == 3 ||
          (entry.channels == 1 && entry.format == static_cast<uint8_t>(ImageFormat::raw))) &&
         entry.orientation >= 1 && entry.orientation <= 8 && entry.flags <= 1;
}

// Format, channels, orientation and flags as one number.
uint32_t kind_of(const IndexEntry& entry) {
  uint32_t kind = 0;
  static_assert(offsetof(IndexEntry, format) + sizeof kind == sizeof(IndexEntry));
  std::memcpy(&kind, &entry.format, sizeof kind);
  return kind;
}

// Its branches are nearly always taken the same way and the rest has none: a million entries take
// three milliseconds. `good_kind` is a kind that was found good; most samples of a data set are
// alike.
bool is_good(const IndexEntry& entry, const Limits& limits, uint32_t& good_kind) {
  if (kind_of(entry) != good_kind) {
    if (!is_kind_good(entry)) return false;
    good_kind = kind_of(entry);
  }
  const bool file_known = entry.file < limits.files;
  const uint64_t file_bytes = file_known ? limits.rows[entry.file].size_bytes : 0;
  const uint64_t pixels = uint64_t{entry.width} * entry.height;
  bool good = file_known & (entry.label < limits.classes) & (entry.offset <= file_bytes);
  good &= entry.length <= file_bytes - entry.offset;  // meaningless where the line above says no
  good &= pixels - 1 < uint64_t{kImagePixelsMax};     // 0 pixels become a very large number
  if (entry.format == static_cast<uint8_t>(ImageFormat::raw)) {
    good &= entry.length == pixels * entry.channels;
  }
  return good & has_name_at(limits.names, entry.name);
}

// The same in words, for the entry that is not good.
std::string problem_of(const IndexEntry& entry, const Limits& limits) {
  const uint64_t pixels = uint64_t{entry.width} * entry.height;
  if (!has_name_at(limits.names, entry.name)) return "its name lies outside the names";
  if (entry.file >= limits.files) return fmt::format("there is no file {}", entry.file);
  const uint64_t file_bytes = limits.rows[entry.file].size_bytes;
  if (entry.offset > file_bytes || entry.length > file_bytes - entry.offset) {
    return fmt::format("{} bytes at {} lie outside its file of {} bytes", entry.length,
                       entry.offset, file_bytes);
  }
  if (entry.label >= limits.classes) {
    return fmt::format("label {} of {} classes", entry.label, limits.classes);
  }
  if (entry.format > static_cast<uint8_t>(ImageFormat::png)) {
    return fmt::format("format {} is not known", entry.format);
  }
  if (pixels < 1 || pixels > uint64_t{kImagePixelsMax}) {
    return fmt::format("a size of {}x{} pixels", entry.width, entry.height);
  }
  if (!is_kind_good(entry) && entry.channels != 3) {
    return fmt::format("{} channels", entry.channels);
  }
  if (entry.orientation < 1 || entry.orientation > 8) {
    return fmt::format("orientation {}", entry.orientation);
  }
  if (entry.flags > 1) return fmt::format("flags {} are not known", entry.flags);
  return fmt::format("{} bytes of raw pixels for {}x{}x{}", entry.length, entry.channels,
                     entry.width, entry.height);
}

// A path that stays below the folder it is joined to.
bool is_inner_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != path.npos) return false;
  if (path.find("..") == path.npos) return true;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

// Magic, version, checksum, and that the sections are where they must be: one behind the other, and
// then the file's end. After this every section lies within the file.
Result<IndexHeader> read_header(BytesView bytes, const std::string& name) {
  if (!bytes.starts_with(kIndexMagic)) {
    return fail(Code::corrupt, fmt::format("{} is no index of a data set: it does not begin with "
                                           "{}; give the folder that tern data import made",
                                           name, kIndexMagic));
  }
  if (bytes.size() < sizeof(IndexHeader)) return damaged(name, "it ends within its header");
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kIndexVersion) {
    return fail(Code::failed_precondition,
                fmt::format("{} has version {} and this program reads version {}; use the tern "
                            "that made it, or import the data set again",
                            name, header.version, kIndexVersion));
  }
  const BytesView checked = bytes.substr(0, sizeof header).substr(kIndexCheckedFrom);
  if (crc32c(checked) != header.crc32c) return damaged(name, "its header does not verify");
  if (header.file_bytes != bytes.size()) {
    return damaged(
        name, fmt::format("it has {} bytes and should have {}", bytes.size(), header.file_bytes));
  }
  uint64_t end = sizeof header;
  for (const IndexSection& section : header.sections) {
    const uint64_t begin = aligned8(end);
    const bool fits = section.offset == begin && begin <= bytes.size() &&
                      section.length <= bytes.size() - begin && section.zero == 0;
    if (!fits) return damaged(name, "its sections do not lie as they must");
    for (uint64_t i = end; i < begin; ++i) {
      if (bytes[i] != '\0') return damaged(name, "the bytes between its sections are not zero");
    }
    end = begin + section.length;
  }
  if (end != bytes.size()) return damaged(name, "there are bytes behind its last section");
  // By division: a product could be too large for its type.
  const auto holds = [&](IndexSectionNumber number, uint64_t count, uint64_t size) {
    const uint64_t length = header.sections[number].length;
    return length % size == 0 && length / size == count;
  };
  if (!holds(kEntries, header.samples, sizeof(IndexEntry)) ||
      !holds(kFiles, header.files, sizeof(IndexFileRow)) || header.train_samples > header.samples ||
      header.files > std::numeric_limits<uint32_t>::max()) {
    return damaged(name, "its counts do not match its sections");
  }
  return header;
}

BytesView section_bytes(BytesView bytes, const IndexHeader& header, IndexSectionNumber number) {
  return bytes.substr(header.sections[number].offset, header.sections[number].length);
}

Error not_verified(const std::string& name, IndexSectionNumber number) {
  return damaged(name, fmt::format("its {} do not verify", kSectionNames[number]));
}

Status check_section(BytesView bytes, const IndexHeader& header, IndexSectionNumber number,
                     const std::string& name) {
  if (crc32c(section_bytes(bytes, header, number)) == header.sections[number].crc32c) return {};
  return not_verified(name, number);
}

Status check_entries(std::span<const IndexEntry> entries, const IndexHeader& header,
                     const Limits& limits, const std::string& name) {
  uint32_t found = 0;
  uint32_t good_kind = 0;  // no good kind: 0 channels
  const IndexEntry* first_bad = nullptr;
  for (size_t begin = 0; begin < entries.size(); begin += kBlockEntries) {
    const auto block = entries.subspan(begin, std::min(kBlockEntries, entries.size() - begin));
    found =
        crc32c(BytesView(reinterpret_cast<const char*>(block.data()), block.size_bytes()), found);
    bool all_good = true;
    for (const IndexEntry& entry : block) all_good &= is_good(entry, limits, good_kind);
    if (all_good || first_bad != nullptr) continue;
    first_bad = &*std::find_if(block.begin(), block.end(), [&](const IndexEntry& entry) {
      return !is_good(entry, limits, good_kind);
    });
  }
  if (found != header.sections[kEntries].crc32c) return not_verified(name, kEntries);
  if (first_bad == nullptr) return {};
  return damaged(name, fmt::format("sample {}: {}", first_bad - entries.data(),
                                   problem_of(*first_bad, limits)));
}

Status check_files(std::span<const IndexFileRow> rows, BytesView names, const std::string& name) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!has_name_at(names, rows[i].name) || !is_inner_path(name_at(names, rows[i].name))) {
      return damaged(name, fmt::format("file {} has no path within the data set", i));
    }
    if (rows[i].size_bytes > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return damaged(name, fmt::format("file {} has an impossible size", i));
    }
  }
  return {};
}

}  // namespace

// What keeps the bytes there: a mapping, or memory of our own.
struct DatasetIndex::Mapping {
  Bytes memory;
  void* address = MAP_FAILED;
  size_t length = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address != MAP_FAILED) ::munmap(address, length);
  }
};

ImageInfo IndexEntry::info() const {
  return {.format = static_cast<ImageFormat>(format),
          .size = {.width = width, .height = height},
          .channels = channels,
          .orientation = orientation,
          .is_progressive = (flags & 1U) != 0};
}

DatasetIndex::~DatasetIndex() = default;

Result<std::unique_ptr<DatasetIndex>> DatasetIndex::open(const std::filesystem::path& file) {
  // O_NONBLOCK: a pipe of that name is refused below, not waited for.
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.is_open()) return file_error("open", file, errno);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return file_error("open", file, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(Code::invalid, fmt::format("{} is no regular file; give the folder that tern data "
                                           "import made",
                                           file.string()));
  }
  if (status.st_size == 0) return damaged(file.string(), "it is empty");

  auto index = std::unique_ptr<DatasetIndex>(new DatasetIndex());
  index->mapping_ = std::make_unique<Mapping>();
  Mapping& mapping = *index->mapping_;
  mapping.length = static_cast<size_t>(status.st_size);
  mapping.address = ::mmap(nullptr, mapping.length, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapping.address == MAP_FAILED) return file_error("map", file, errno);
  // All of it is read now. Page by page that would be the larger part of the time; a kernel that
  // does not know this advice (before 5.14) does just that.
  (void)::madvise(mapping.address, mapping.length, MADV_POPULATE_READ);
  index->bytes_ = BytesView(static_cast<const char*>(mapping.address), mapping.length);
  return read(std::move(index), file.string());
}

Result<std::unique_ptr<DatasetIndex>> DatasetIndex::from_bytes(Bytes bytes, std::string name) {
  auto index = std::unique_ptr<DatasetIndex>(new DatasetIndex());
  index->mapping_ = std::make_unique<Mapping>();
  index->mapping_->memory = std::move(bytes);
  index->bytes_ = index->mapping_->memory;
  return read(std::move(index), std::move(name));
}

Result<std::unique_ptr<DatasetIndex>> DatasetIndex::read(std::unique_ptr<DatasetIndex> index,
                                                         std::string name) {
  const BytesView bytes = index->bytes_;
  ASSIGN_OR_RETURN(const IndexHeader header, read_header(bytes, name));
  RETURN_IF_ERROR(check_section(bytes, header, kAbout, name));
  RETURN_IF_ERROR(check_section(bytes, header, kFiles, name));
  RETURN_IF_ERROR(check_section(bytes, header, kNames, name));

  Result<About> about = parse_about(section_bytes(bytes, header, kAbout));
  if (!about) return damaged(name, "its description: " + about.error().message);
  index->about_ = std::move(*about);
  index->files_ = section_bytes(bytes, header, kFiles);
  index->names_ = section_bytes(bytes, header, kNames);
  // Used as they lie: the header and the sections keep to multiples of 8, and so does the memory.
  TERN_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % alignof(IndexEntry) == 0);
  const std::span rows(reinterpret_cast<const IndexFileRow*>(index->files_.data()), header.files);
  index->entries_ = {
      reinterpret_cast<const IndexEntry*>(section_bytes(bytes, header, kEntries).data()),
      header.samples};
  const Limits limits = {rows.data(), header.files, index->about_.classes.size(), index->names_};
  RETURN_IF_ERROR(check_entries(index->entries_, header, limits, name));
  RETURN_IF_ERROR(check_files(rows, index->names_, name));
  index->train_samples_ = static_cast<int64_t>(header.train_samples);
  index->id_ = to_hex(header.id);
  return index;
}

std::string_view DatasetIndex::name(int64_t sample) const {
  return name_at(names_, entry(sample).name);
}

int64_t DatasetIndex::files() const {
  return static_cast<int64_t>(files_.size() / sizeof(IndexFileRow));
}

std::string_view DatasetIndex::file_path(int64_t file) const {
  IndexFileRow row;
  std::memcpy(&row, files_.data() + static_cast<size_t>(file) * sizeof row, sizeof row);
  return name_at(names_, row.name);
}

int64_t DatasetIndex::file_bytes(int64_t file) const {
  IndexFileRow row;
  std::memcpy(&row, files_.data() + static_cast<size_t>(file) * sizeof row, sizeof row);
  return static_cast<int64_t>(row.size_bytes);
}

std::string DatasetIndex::id(Split split) const {
  Sha256 hash;
  hash.update_field("tern-dataset-split-2");
  hash.update_field(id_);
  hash.update_field(split == Split::train ? "train" : "test");
  return to_hex(hash.finish());
}

Result<std::filesystem::path> DatasetIndex::files_folder(
    const std::filesystem::path& folder) const {
  if (about_.root.empty()) return folder;
  std::filesystem::path root = folder / about_.root;  // an absolute one stays what it is
  std::error_code ignored;
  if (std::filesystem::is_directory(root, ignored)) return root;
  return fail(Code::not_found,
              fmt::format("the data set in {} was indexed in place at {}, which is "
                          "gone; mount it there, or import again",
                          folder.string(), root.string()));
}

}  // namespace tern
