// Archives: every member's name, place and content, and the archives inside.
#include <algorithm>
#include <optional>

#include "fuzz/fuzz.h"
#include "import/archive.h"

namespace tern {
namespace {

constexpr int64_t kMemberBytesMax = 1 << 20;
// Of one input, so that a small archive of large members does not pass for a hang.
constexpr int64_t kTotalBytesMax = 16 << 20;

// A tar's headers under checksums that are right: every block that could be one.
Bytes signed_again(BytesView bytes) {
  constexpr size_t kBlock = 512, kMagicAt = 257, kSumAt = 148, kSumBytes = 8;
  Bytes tar(bytes);
  for (size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    if (tar.compare(at + kMagicAt, 5, "ustar") != 0) continue;
    tar.replace(at + kSumAt, kSumBytes, kSumBytes, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(tar[at + i]);
    for (size_t i = 0; i < 6; ++i) {
      tar[at + kSumAt + 5 - i] = static_cast<char>('0' + (sum >> (3 * i) & 7));
    }
    tar[at + kSumAt + 6] = '\0';
  }
  return tar;
}

// What ArchiveMember::name() promises.
void check_name(BytesView name) {
  TERN_CHECK(!name.empty());
  while (true) {
    const size_t end = std::min(name.find('/'), name.size());
    const BytesView part = name.substr(0, end);
    TERN_CHECK(!part.empty() && part != "." && part != ".." && part.find('\0') == part.npos);
    if (end == name.size()) return;
    name.remove_prefix(end + 1);
  }
}

class Walk {
 public:
  Walk(BytesView archive, uint8_t choice) : archive_(archive), choice_(choice) {}

  Status visit(ArchiveMember& member) {
    check_name(member.name());
    // Where a member lies must be asked before it is read; not to ask must be right, too.
    const auto offset = (choice_ & 2) != 0 ? member.offset() : std::nullopt;
    if (offset) {
      TERN_CHECK(*offset >= 0 && member.size_bytes() >= 0 &&
                 *offset <= static_cast<int64_t>(archive_.size()) - member.size_bytes());
    }
    // The choice of some: passing over a member is another path than reading it.
    ++members_;
    if ((choice_ & 4) != 0 && members_ % 2 == 0) return {};
    if ((choice_ & 8) != 0 && member.name().ends_with("r")) {  // ".tar"
      member.walk([&](ArchiveMember& inner) { return visit(inner); }).permit_unchecked_error();
      return enough();
    }
    const Result<Bytes> content = member.read(kMemberBytesMax);
    if (!content) return enough();
    bytes_ += static_cast<int64_t>(content->size());
    TERN_CHECK(static_cast<int64_t>(content->size()) <= kMemberBytesMax);
    if (offset) {
      TERN_CHECK(archive_.substr(static_cast<size_t>(*offset), content->size()) == *content);
    }
    return enough();
  }

 private:
  Status enough() const {
    if (bytes_ > kTotalBytesMax || members_ > 1000) return fail(Code::cancelled, "enough");
    return {};
  }

  const BytesView archive_;
  const uint8_t choice_;
  int64_t bytes_ = 0;
  int64_t members_ = 0;
};

void try_archive(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  const Bytes archive = (choice & 1) != 0 ? signed_again(bytes) : Bytes(bytes);
  Walk walk(archive, choice);
  walk_archive_bytes(archive, "fuzz", [&](ArchiveMember& member) {
    return walk.visit(member);
  }).permit_unchecked_error();
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_archive)
