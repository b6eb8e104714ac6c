#include "import/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
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

// Where the content of a member lies in the input.
struct StoredMember {
  int64_t offset = 0;
  int64_t bytes = 0;
};
using StoredMembers = std::map<std::string, StoredMember>;

enum class HardLinks { visit, pass_over };

// One archive being read, and what its input said when it failed.
struct Reading {
  ArchiveInput& input;
  std::string name;  // of the archive, for messages
  int depth = 0;
  Opened opened;
  std::optional<Error> input_error;
  std::string last_member;
  std::optional<StoredMembers> stored;  // once a hard link has asked for them

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

Status walk_input(ArchiveInput& input, std::string name, int depth, const Visit& visit,
                  HardLinks links = HardLinks::visit);

Error too_large(const std::string& where, int64_t bytes_max) {
  return fail(Code::exhausted,
              fmt::format("{} is larger than {} bytes; take it out of the archive, "
                          "no sample is that large",
                          where, bytes_max));
}

Error too_deep(const std::string& where) {
  return fail(Code::corrupt, where + ": archives are nested too deeply; unpack it first");
}

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
  if (size_ > bytes_max) return too_large(where(), bytes_max);
  // What a header claims takes no memory beyond this before the bytes are there.
  constexpr int64_t kReserveMax = int64_t{1} << 20;
  try {
    Bytes content;
    content.reserve(static_cast<size_t>(std::clamp<int64_t>(size_, 0, kReserveMax)));
    while (true) {
      int64_t gap = 0;
      ASSIGN_OR_RETURN(const BytesView piece, next_piece(gap));
      if (given_ > bytes_max) return too_large(where(), bytes_max);
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
  if (reading_.depth + 1 >= kDepthMax) return too_deep(where());
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

// The content is that of a member before it.
class LinkMember final : public ArchiveMember {
 public:
  LinkMember(Reading& reading, std::string name, std::string target)
      : reading_(reading), name_(std::move(name)), target_(std::move(target)) {
    const auto found = reading.stored->find(target_);
    if (found != reading.stored->end()) stored_ = found->second;
  }

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return stored_ ? stored_->bytes : 0; }
  std::string problem() const override {
    if (stored_) return {};
    return fmt::format(
        "it is a hard link to {}, which cannot be read twice in this archive; pack "
        "it again with tar --hard-dereference",
        printable_path(target_));
  }
  std::optional<int64_t> offset() override {
    if (!stored_ || stored_->bytes == 0) return {};
    return reading_.input.base() + stored_->offset;
  }
  Result<Bytes> read(int64_t bytes_max) override;
  Status walk(const Visit& visit) override {
    if (!stored_) return fail(Code::corrupt, where() + ": " + problem());
    if (reading_.depth + 1 >= kDepthMax) return too_deep(where());
    const auto part = reading_.input.part(stored_->offset, stored_->bytes);
    return walk_input(*part, where(), reading_.depth + 1, visit);
  }
  const std::optional<StoredMember>& stored() const { return stored_; }

 private:
  std::string where() const { return reading_.name + "/" + name_; }

  Reading& reading_;
  const std::string name_;
  const std::string target_;
  std::optional<StoredMember> stored_;
};

Result<Bytes> LinkMember::read(int64_t bytes_max) {
  if (!stored_) return fail(Code::corrupt, where() + ": " + problem());
  if (stored_->bytes > bytes_max) return too_large(where(), bytes_max);
  const auto part = reading_.input.part(stored_->offset, stored_->bytes);
  try {
    Bytes content;
    while (std::cmp_less(content.size(), stored_->bytes)) {
      ASSIGN_OR_RETURN(const BytesView piece, part->next());
      if (piece.empty()) return fail(Code::corrupt, where() + ": what it links to ends early");
      content += piece;
    }
    return content;
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted, "no memory for " + where() + "; free some and try again");
  }
}

// By a walk of its own, so that archives without hard links, which are nearly all, pay nothing.
Status find_stored(Reading& reading) {
  if (reading.stored) return {};
  reading.stored.emplace();
  const bool is_plain = archive_filter_code(reading.opened.get(), 0) == ARCHIVE_FILTER_NONE;
  if (reading.input.size() < 0 || !is_plain) return {};
  const auto whole = reading.input.part(0, reading.input.size());
  const auto take = [&](ArchiveMember& member) -> Status {
    const std::optional<int64_t> at = member.offset();
    if (!at && member.size_bytes() != 0) return {};
    (*reading.stored)[member.name()] = {at ? *at - reading.input.base() : 0, member.size_bytes()};
    return {};
  };
  return walk_input(*whole, reading.name, reading.depth, take, HardLinks::pass_over);
}

Result<std::string> clean_name(const char* path, const char* utf8) {
  if (path == nullptr) path = utf8;
  return clean_member_path(path != nullptr ? path : "");
}

bool is_hard_link(archive_entry* entry) {
  const bool is_link =
      archive_entry_hardlink(entry) != nullptr || archive_entry_hardlink_utf8(entry) != nullptr;
  // Some programs write the content once more behind the link.
  return is_link && (archive_entry_size_is_set(entry) == 0 || archive_entry_size(entry) == 0);
}

Status visit_entry(Reading& reading, archive_entry* entry, const Visit& visit, HardLinks links) {
  const bool is_link = is_hard_link(entry);
  const bool is_passed_over =
      is_link ? links == HardLinks::pass_over : archive_entry_filetype(entry) != AE_IFREG;
  if (is_passed_over) return {};
  ASSIGN_OR_RETURN(std::string path,
                   clean_name(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry))
                       .at(reading.name));
  reading.last_member = printable_path(path);
  if (!is_link) {
    Member member(reading, entry, std::move(path));
    return visit(member);
  }
  // One that is refused is no member either.
  const Result<std::string> target =
      clean_name(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry));
  RETURN_IF_ERROR(find_stored(reading));
  LinkMember member(reading, path, target.value_or("a file outside of the archive"));
  if (member.stored()) (*reading.stored)[path] = *member.stored();  // for links to this one
  return visit(member);
}

Status walk_input(ArchiveInput& input, std::string name, int depth, const Visit& visit,
                  HardLinks links) {
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
    RETURN_IF_ERROR(visit_entry(reading, entry, visit, links));
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

}  // namespace tern
