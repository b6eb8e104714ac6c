#include "import/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "import/archive_input.h"
#include "import/member_path.h"

namespace tern {
namespace {

using Visit = std::function<Status(ArchiveMember&)>;
struct CloseArchive {
  void operator()(archive* opened) const { archive_read_free(opened); }
};
using Opened = std::unique_ptr<archive, CloseArchive>;

constexpr size_t kTarBlockBytes = 512;
// Archives in archives in archives are somebody's joke.
constexpr int kDepthMax = 4;

// libarchive turns names into the locale's encoding, and the "C" locale would make every letter
// beyond ASCII a '?'. This thread's only, and given back.
class Utf8Names {
 public:
  Utf8Names() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{})) {
    if (locale_ != locale_t{}) before_ = uselocale(locale_);
  }
  ~Utf8Names() {
    if (locale_ == locale_t{}) return;
    uselocale(before_);
    freelocale(locale_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  locale_t locale_;
  locale_t before_{};
};

// One archive being read, and what its input said when it failed.
struct Reading {
  ArchiveInput& input;
  std::string name;  // of the archive, for messages
  int depth = 0;
  Opened opened;
  std::optional<Error> input_error;
  std::string last_member;

  // What libarchive last complained of.
  Error error() const {
    if (input_error) return *input_error;
    const char* text = archive_error_string(opened.get());
    const std::string after = last_member.empty() ? "" : ", at " + last_member;
    return fail(Code::corrupt, fmt::format("{}{}: {}; fetch it again, or pack it again", name,
                                           after, text != nullptr ? text : "it is damaged"));
  }
};

la_ssize_t give_bytes(archive* opened, void* data, const void** block) {
  auto& reading = *static_cast<Reading*>(data);
  Result<BytesView> bytes = reading.input.next();
  if (!bytes) {
    reading.input_error = bytes.error();
    archive_set_error(opened, EIO, "the input failed");
    return -1;
  }
  *block = bytes->data();
  return static_cast<la_ssize_t>(bytes->size());
}

la_int64_t skip_bytes(archive* /*opened*/, void* data, la_int64_t wanted) {
  ArchiveInput& input = static_cast<Reading*>(data)->input;
  const int64_t skipped = std::clamp<int64_t>(wanted, 0, input.size() - input.position());
  input.seek(input.position() + skipped);
  return skipped;
}

la_int64_t seek_bytes(archive* /*opened*/, void* data, la_int64_t offset, int whence) {
  ArchiveInput& input = static_cast<Reading*>(data)->input;
  const int64_t from = whence == SEEK_SET   ? 0
                       : whence == SEEK_CUR ? input.position()
                                            : input.size();
  int64_t position = 0;
  if (__builtin_add_overflow(from, offset, &position) || position < 0) return ARCHIVE_FATAL;
  position = std::min(position, input.size());
  input.seek(position);
  return position;
}

Status open_reading(Reading& reading) {
  reading.opened.reset(archive_read_new());
  archive* opened = reading.opened.get();
  if (opened == nullptr) return fail(Code::exhausted, "no memory to read " + reading.name);
  // Only these: each further format is code that reads what strangers wrote.
  archive_read_support_format_tar(opened);
  // A zip's directory is at its end; without it, one that was cut short would read as a smaller
  // one.
  if (reading.input.size() >= 0) {
    archive_read_support_format_zip_seekable(opened);
  } else {
    archive_read_support_format_zip_streamable(opened);
  }
  archive_read_support_filter_gzip(opened);
  archive_read_support_filter_bzip2(opened);
  archive_read_support_filter_lzma(opened);
  archive_read_support_filter_xz(opened);
  archive_read_support_filter_zstd(opened);
  archive_read_set_callback_data(opened, &reading);
  archive_read_set_read_callback(opened, give_bytes);
  if (reading.input.size() >= 0) {
    archive_read_set_skip_callback(opened, skip_bytes);
    archive_read_set_seek_callback(opened, seek_bytes);
  }
  if (archive_read_open1(opened) != ARCHIVE_OK) return reading.error();
  return {};
}

Status walk_input(ArchiveInput& input, std::string name, int depth, const Visit& visit);

class Member final : public ArchiveMember {
 public:
  Member(Reading& reading, archive_entry* entry, std::string name)
      : reading_(reading),
        opened_(reading.opened.get()),
        name_(std::move(name)),
        size_(archive_entry_size_is_set(entry) != 0 ? archive_entry_size(entry) : -1),
        is_sparse_(archive_entry_sparse_count(entry) > 0) {}

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return size_; }
  std::optional<int64_t> offset() override;
  Result<Bytes> read(int64_t bytes_max) override;
  Status walk(const Visit& visit) override;

  // The next piece of the content; empty at its end. `gap` is how many zero bytes come before it.
  Result<BytesView> next_piece(int64_t& gap);

 private:
  Status peek_piece();
  bool is_stored() const;
  std::string where() const { return reading_.name + "/" + name_; }
  Error too_large(int64_t bytes_max) const {
    return fail(Code::exhausted, fmt::format("{} is larger than {} bytes; take it out of the "
                                             "archive, no sample is that large",
                                             where(), bytes_max));
  }

  Reading& reading_;
  archive* const opened_;
  const std::string name_;
  const int64_t size_;
  const bool is_sparse_;
  int64_t given_ = 0;               // how far next_piece() has come in the content
  std::optional<BytesView> first_;  // a piece that was looked at and not yet given
  int64_t first_gap_ = 0;
  std::optional<int64_t> first_at_;  // where that lies in the input
};

// Looks at the first piece without giving it. libarchive's position is then where it begins:
// formats consume a piece only when the next one is asked for.
Status Member::peek_piece() {
  if (first_ || given_ > 0) return {};
  int64_t gap = 0;
  ASSIGN_OR_RETURN(const BytesView piece, next_piece(gap));
  given_ = 0;
  first_ = piece;
  first_gap_ = gap;
  if (gap == 0 && !piece.empty()) first_at_ = archive_filter_bytes(opened_, 0);
  return {};
}

Result<BytesView> Member::next_piece(int64_t& gap) {
  gap = 0;
  if (first_) {
    const BytesView piece = *first_;
    first_.reset();
    gap = first_gap_;
    given_ = gap + static_cast<int64_t>(piece.size());
    return piece;
  }
  const void* block = nullptr;
  size_t bytes = 0;
  la_int64_t at = 0;
  const int code = archive_read_data_block(opened_, &block, &bytes, &at);
  // A warning here is a checksum that differs.
  if (code != ARCHIVE_OK && code != ARCHIVE_EOF) return reading_.error();
  if (code == ARCHIVE_EOF) {
    bytes = 0;
    at = std::max(size_, given_);  // a sparse file may end in a hole
  }
  if (at < given_) return reading_.error();
  gap = at - given_;
  given_ = at + static_cast<int64_t>(bytes);
  return BytesView(static_cast<const char*>(block), bytes);
}

// libarchive names the method of each zip member in the format's name.
bool Member::is_stored() const {
  if (reading_.input.size() < 0 || archive_filter_code(opened_, 0) != ARCHIVE_FILTER_NONE) {
    return false;
  }
  const int format = archive_format(opened_) & ARCHIVE_FORMAT_BASE_MASK;
  if (format == ARCHIVE_FORMAT_TAR) return !is_sparse_;
  const char* text = archive_format_name(opened_);
  return text != nullptr && std::strstr(text, "(uncompressed)") != nullptr;
}

std::optional<int64_t> Member::offset() {
  if (size_ <= 0 || !is_stored() || !peek_piece() || !first_at_) return {};
  if (*first_at_ < 0 || *first_at_ > reading_.input.size() - size_) return {};
  // Believed only after a look: the position is libarchive's own affair.
  if (first_) {
    const BytesView begin = first_->substr(0, 64);
    if (reading_.input.peek(*first_at_, begin.size()) != begin) return {};
  }
  return reading_.input.base() + *first_at_;
}

Result<Bytes> Member::read(int64_t bytes_max) {
  if (size_ > bytes_max) return too_large(bytes_max);
  // What a header claims takes no memory beyond this before the bytes are there.
  constexpr int64_t kReserveMax = int64_t{1} << 20;
  try {
    Bytes content;
    content.reserve(static_cast<size_t>(std::clamp<int64_t>(size_, 0, kReserveMax)));
    while (true) {
      int64_t gap = 0;
      ASSIGN_OR_RETURN(const BytesView piece, next_piece(gap));
      if (given_ > bytes_max) return too_large(bytes_max);
      if (gap > 0 && !is_sparse_) return reading_.error();
      content.append(static_cast<size_t>(gap), '\0');
      if (piece.empty()) break;
      content.append(piece);
    }
    return content;
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted, "no memory for " + where() + "; free some and try again");
  }
}

// A member that comes unpacked from the archive around it.
class MemberInput final : public ArchiveInput {
 public:
  explicit MemberInput(Member& member) : member_(member) {}
  Result<BytesView> next() override {
    int64_t gap = 0;
    ASSIGN_OR_RETURN(const BytesView piece, member_.next_piece(gap));
    if (gap > 0) return fail(Code::corrupt, member_.name() + ": an archive with holes");
    return piece;
  }

 private:
  Member& member_;
};

Status Member::walk(const Visit& visit) {
  if (reading_.depth + 1 >= kDepthMax) {
    return fail(Code::corrupt, where() + ": archives are nested too deeply; unpack it first");
  }
  const std::optional<int64_t> at = offset();
  if (at) {
    const auto part = reading_.input.part(*first_at_, size_);
    return walk_input(*part, where(), reading_.depth + 1, visit);
  }
  MemberInput input(*this);
  return walk_input(input, where(), reading_.depth + 1, visit);
}

// A plain tar has a block of zeros behind its last member. Cut short between two members it would
// read as a whole, smaller one.
Status check_end(const Reading& reading, int64_t members_end) {
  archive* opened = reading.opened.get();
  const bool is_tar = (archive_format(opened) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
  const bool is_plain = archive_filter_code(opened, 0) == ARCHIVE_FILTER_NONE;
  if (!is_tar || !is_plain || reading.input.size() < 0) return {};
  const Bytes mark = reading.input.peek(members_end, kTarBlockBytes);
  if (mark == Bytes(kTarBlockBytes, '\0')) return {};
  return fail(Code::corrupt, fmt::format("{} ends without a tar's end mark, after {}: it was cut "
                                         "short; fetch it again, or pack it again",
                                         reading.name, reading.last_member));
}

bool is_regular_file(archive_entry* entry) {
  return archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr;
}

Result<std::string> member_name(archive_entry* entry) {
  const char* path = archive_entry_pathname(entry);
  if (path == nullptr) path = archive_entry_pathname_utf8(entry);
  return clean_member_path(path != nullptr ? path : "");
}

Status walk_input(ArchiveInput& input, std::string name, int depth, const Visit& visit) {
  Reading reading{.input = input, .name = std::move(name), .depth = depth};
  RETURN_IF_ERROR(open_reading(reading));
  archive* opened = reading.opened.get();
  int64_t members_end = 0;
  while (true) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(opened, &entry);
    if (code == ARCHIVE_EOF) return check_end(reading, members_end);
    // Warnings are about owners and times.
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return reading.error();
    if (is_regular_file(entry)) {
      ASSIGN_OR_RETURN(std::string path, member_name(entry).at(reading.name));
      reading.last_member = printable_path(path);
      Member member(reading, entry, std::move(path));
      RETURN_IF_ERROR(visit(member));
    }
    if (archive_read_data_skip(opened) < ARCHIVE_WARN) return reading.error();
    members_end = archive_filter_bytes(opened, 0);
  }
}

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

Error open_error(const std::string& path) {
  const int error_number = errno;
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return fail(Code::not_found, fmt::format("there is no file {}; check its name", path));
  }
  if (error_number == EACCES || error_number == EPERM) {
    return fail(Code::permission_denied,
                fmt::format("may not read {}; make it readable for this user", path));
  }
  return fail(Code::unavailable, fmt::format("cannot read {}: {}; check the disk it is on", path,
                                             std::strerror(error_number)));
}

}  // namespace

Status walk_archive(const std::filesystem::path& file, int64_t* bytes_done, const Visit& visit) {
  const std::string name = file.string();
  const Descriptor descriptor{open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.number < 0) return open_error(name);
  struct stat info{};
  if (fstat(descriptor.number, &info) != 0) return open_error(name);
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::invalid, name + " is not a regular file; give an archive");
  }
  const Utf8Names names;
  FileInput input(descriptor.number, name, 0, info.st_size, bytes_done);
  RETURN_IF_ERROR(walk_input(input, name, 0, visit));
  if (bytes_done != nullptr) *bytes_done = info.st_size;
  return {};
}

Status walk_archive_bytes(BytesView bytes, const std::string& name, const Visit& visit) {
  const Utf8Names names;
  MemoryInput input(bytes, 0);
  return walk_input(input, name, 0, visit);
}

bool looks_like_archive(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 11> kEndings = {
      ".tar",    ".zip",     ".tgz",    ".tbz2",    ".txz",     ".tzst",
      ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lzma"};
  const std::string name = lower_case(file.filename().string());
  if (std::any_of(kEndings.begin(), kEndings.end(),
                  [&](std::string_view ending) { return name.ends_with(ending); })) {
    return true;
  }
  const Descriptor descriptor{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info{};
  if (descriptor.number < 0 || fstat(descriptor.number, &info) != 0 || !S_ISREG(info.st_mode)) {
    return false;
  }
  const Bytes begin =
      FileInput(descriptor.number, name, 0, info.st_size, nullptr).peek(0, kTarBlockBytes);
  using namespace std::string_view_literals;
  for (const BytesView magic :
       {"PK\x03\x04"sv, "\x1f\x8b"sv, "\xfd\x37zXZ\0"sv, "\x28\xb5\x2f\xfd"sv, "BZh"sv}) {
    if (begin.starts_with(magic)) return true;
  }
  return begin.size() == kTarBlockBytes && begin.compare(257, 5, "ustar") == 0;
}

}  // namespace tern
