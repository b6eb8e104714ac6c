#include "import/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <set>

#include "dataset/test_folder.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kBytesMax = 1 << 24;

struct Seen {
  std::string name;
  int64_t size = 0;
  std::optional<int64_t> offset;
  Bytes content;
};

struct Walked {
  Status status;
  std::vector<Seen> seen;
};

Walked walk_bytes(BytesView bytes) {
  Walked walked;
  walked.status = walk_archive_bytes(bytes, "x", [&](ArchiveMember& member) -> Status {
    Seen seen{member.name(), member.size_bytes(), member.offset(), {}};
    ASSIGN_OR_RETURN(seen.content, member.read(kBytesMax));
    walked.seen.push_back(std::move(seen));
    return {};
  });
  return walked;
}

TestFiles some_files() {
  return {{"a/one.jpg", "first"},
          {"a/" + std::string(150, 'n') + "/two.jpg", varied_bytes(70'000)},
          {"b/empty.jpg", ""},
          {"three", varied_bytes(513)}};
}

TEST(Archive, EveryFormatAndFilterGivesTheSameMembers) {
  const TestFolder folder;
  for (const std::string kind :
       {"pax", "gnutar", "zip", "zip-stored", "pax.gz", "pax.bz2", "pax.xz", "gnutar.zst"}) {
    SCOPED_TRACE(kind);
    const Bytes packed = pack_archive(kind, some_files());
    const Walked walked = walk_bytes(packed);
    ASSERT_TRUE(walked.status) << walked.status.error().to_string();
    ASSERT_EQ(walked.seen.size(), some_files().size());
    // The same from a file, without asking for offsets first.
    const std::string path = folder.write("x", packed);
    int64_t done = 0;
    size_t at = 0;
    const Status status = walk_archive(path, &done, [&](ArchiveMember& member) -> Status {
      EXPECT_EQ(member.name(), walked.seen[at].name);
      Result<Bytes> content = member.read(kBytesMax);
      EXPECT_TRUE(content && *content == walked.seen[at].content);
      ++at;
      return {};
    });
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_EQ(done, static_cast<int64_t>(packed.size()));
    for (size_t i = 0; i < walked.seen.size(); ++i) {
      EXPECT_EQ(walked.seen[i].name, some_files()[i].first);
      EXPECT_EQ(walked.seen[i].content, some_files()[i].second);
    }
  }
}

TEST(Archive, OffsetsPointAtTheMembersOwnBytes) {
  const TestFolder folder;
  for (const std::string kind : {"pax", "ustar", "gnutar", "zip-stored"}) {
    SCOPED_TRACE(kind);
    // Many sizes, so that headers and contents fall on every side of a read window's edge.
    TestFiles files;
    for (size_t i = 1; i < 300; ++i) {
      files.emplace_back(
          "f" + std::to_string(i) + std::string(i % (kind == "ustar" ? 90 : 140), 'x'),
          varied_bytes(i * 37 % 9000 + 1));
    }
    const Bytes packed = pack_archive(kind, files);
    const std::string path = folder.write("x", packed);
    size_t found = 0;
    const Status status = walk_archive(path, nullptr, [&](ArchiveMember& member) -> Status {
      const std::optional<int64_t> offset = member.offset();
      EXPECT_TRUE(offset) << member.name();
      if (!offset) return {};
      EXPECT_EQ(packed.substr(static_cast<size_t>(*offset), files[found].second.size()),
                files[found].second);
      EXPECT_EQ(member.offset(), offset);
      // After asking, its content is still whole; every third is not read at all.
      if (found % 3 != 0) {
        EXPECT_EQ(member.read(kBytesMax).value_or(""), files[found].second);
      }
      ++found;
      return {};
    });
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_EQ(found, files.size());
  }
}

TEST(Archive, PackedMembersHaveNoOffset) {
  for (const std::string kind : {"zip", "pax.gz", "pax.xz"}) {
    const Walked walked = walk_bytes(pack_archive(kind, some_files()));
    ASSERT_TRUE(walked.status);
    for (const Seen& seen : walked.seen) {
      EXPECT_FALSE(seen.offset) << kind << seen.name;
    }
  }
}

TEST(Archive, AnArchiveInAnArchiveGivesOffsetsInTheOutermostFile) {
  const TestFolder folder;
  const Bytes inner = pack_archive("gnutar", {{"a.jpg", varied_bytes(5000)}, {"b.jpg", "bee"}});
  for (const std::string kind : {"pax", "zip-stored", "pax.gz"}) {
    SCOPED_TRACE(kind);
    const Bytes outer = pack_archive(kind, {{"n1.tar", inner}, {"n2.tar", inner}});
    const std::string path = folder.write("outer", outer);
    std::vector<std::string> names;
    const Status status = walk_archive(path, nullptr, [&](ArchiveMember& part) -> Status {
      return part.walk([&](ArchiveMember& member) -> Status {
        names.push_back(part.name() + ":" + member.name());
        const std::optional<int64_t> offset = member.offset();
        EXPECT_EQ(offset.has_value(), kind != "pax.gz");
        ASSIGN_OR_RETURN(const Bytes content, member.read(kBytesMax));
        EXPECT_EQ(content, member.name() == "a.jpg" ? varied_bytes(5000) : "bee");
        if (offset) {
          EXPECT_EQ(outer.substr(static_cast<size_t>(*offset), content.size()), content);
        }
        return {};
      });
    });
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_THAT(names, ElementsAre("n1.tar:a.jpg", "n1.tar:b.jpg", "n2.tar:a.jpg", "n2.tar:b.jpg"));
  }
}

TEST(Archive, NamesThatCouldLeaveTheDestinationAreRefused) {
  for (const std::string name :
       {"../x.jpg", "a/../../x.jpg", "/etc/x.jpg", "a/..", "a\nb.jpg", "a\x7f", "./"}) {
    const Walked walked =
        walk_bytes(tar_seal(tar_header(name, "00000000000", '0')) + Bytes(1024, '\0'));
    if (name.ends_with("/")) continue;  // a folder to tar, passed over
    ASSERT_FALSE(walked.status) << name;
    EXPECT_EQ(walked.status.error().code, Code::corrupt);
    EXPECT_TRUE(walked.seen.empty());
  }
  const Walked walked = walk_bytes(pack_archive("zip", {{"ok", "x"}, {"../evil", "x"}}));
  ASSERT_FALSE(walked.status);
  EXPECT_THAT(walked.status.error().message, HasSubstr("../evil"));
}

TEST(Archive, NamesAreKeptAsBytes) {
  const std::string latin = "caf\xe9.jpg";
  const std::string utf8 = "d\xc3\xa9j\xc3\xa0/\xe6\x97\xa5.jpg";
  EXPECT_EQ(walk_bytes(tar_seal(tar_header(latin, "00000000000", '0')) + Bytes(1024, '\0'))
                .seen.at(0)
                .name,
            latin);
  for (const std::string kind : {"pax", "ustar", "gnutar", "zip"}) {
    const Walked walked = walk_bytes(pack_archive(kind, {{"./" + utf8, "x"}}));
    ASSERT_TRUE(walked.status) << kind << walked.status.error().to_string();
    EXPECT_EQ(walked.seen.at(0).name, utf8) << kind;
  }
}

Bytes hard_link(const std::string& name, const std::string& target) {
  Bytes header = tar_header(name, "00000000000", '1');
  header.replace(157, target.size(), target);
  return tar_seal(header);
}

// A folder with files of several names, as tar packs it: the second name is a link to the first.
Bytes tar_with_links() {
  return tar_member("a/one.jpg", varied_bytes(700), '0') + tar_member("a/empty.jpg", "", '0') +
         hard_link("b/same.jpg", "./a/one.jpg") + tar_member("c/last.jpg", "z", '0') +
         hard_link("b/again.jpg", "b/same.jpg") + hard_link("b/empty.jpg", "a/empty.jpg") +
         Bytes(1024, '\0');
}

TEST(Archive, AHardLinkIsTheFileItNames) {
  const Bytes tar = tar_with_links();
  const Walked walked = walk_bytes(tar);
  ASSERT_TRUE(walked.status) << walked.status.error().to_string();
  ASSERT_EQ(walked.seen.size(), 6U);
  EXPECT_EQ(walked.seen[3].name, "c/last.jpg");
  for (const size_t link : {2, 4}) {
    EXPECT_EQ(walked.seen[link].size, 700);
    EXPECT_EQ(walked.seen[link].offset, walked.seen[0].offset);
    EXPECT_EQ(walked.seen[link].content, varied_bytes(700));
  }
  EXPECT_EQ(walked.seen[5].name, "b/empty.jpg");
  EXPECT_EQ(walked.seen[5].content, "");

  // Inside another archive, offsets are still those of the outermost file.
  const Bytes outer =
      tar_member("inner.tar", tar, '0') + hard_link("linked.tar", "inner.tar") + Bytes(1024, '\0');
  int inner = 0;
  const Status nested = walk_archive_bytes(outer, "x", [&](ArchiveMember& member) -> Status {
    return member.walk([&](ArchiveMember& below) -> Status {
      ++inner;
      const std::optional<int64_t> offset = below.offset();
      ASSIGN_OR_RETURN(const Bytes content, below.read(kBytesMax));
      EXPECT_EQ(offset.has_value(), !content.empty());
      if (!offset) return {};
      EXPECT_EQ(outer.substr(static_cast<size_t>(*offset), content.size()), content);
      return {};
    });
  });
  ASSERT_TRUE(nested) << nested.error().to_string();
  EXPECT_EQ(inner, 12);
}

TEST(Archive, AHardLinkThatCannotBeFollowedSaysSo) {
  const Bytes lost = hard_link("b/lost.jpg", "a/other.jpg") + hard_link("b/out.jpg", "../x.jpg");
  const Bytes plain = tar_member("a/one.jpg", "x", '0') + lost + Bytes(1024, '\0');
  for (const Bytes& archive : {filter_bytes("gz", tar_with_links()), plain}) {
    std::vector<std::string> problems;
    const Status walked = walk_archive_bytes(archive, "x", [&](ArchiveMember& member) -> Status {
      if (member.problem().empty()) return {};
      problems.push_back(member.name() + " " + member.problem());
      EXPECT_FALSE(member.offset());
      EXPECT_EQ(member.read(kBytesMax).error().code, Code::corrupt);
      EXPECT_FALSE(member.walk([](ArchiveMember&) { return Status(); }));
      return {};
    });
    ASSERT_TRUE(walked) << walked.error().to_string();
    ASSERT_EQ(problems.size(), archive == plain ? 2U : 3U);
    EXPECT_THAT(problems[0],
                HasSubstr(archive == plain ? "b/lost.jpg it is a hard link to a/other.jpg"
                                           : "b/same.jpg it is a hard link to a/one.jpg"));
    EXPECT_THAT(problems[0], HasSubstr("tar --hard-dereference"));
  }
}

TEST(Archive, AHardLinkOverTheLimitIsRefused) {
  const Status walked = walk_archive_bytes(tar_with_links(), "x", [](ArchiveMember& member) {
    const Result<Bytes> content = member.read(699);
    EXPECT_EQ(content.has_value(), member.size_bytes() < 700);
    EXPECT_TRUE(content || content.error().code == Code::exhausted);
    return Status();
  });
  EXPECT_TRUE(walked);
}

TEST(Archive, SymbolicLinksDevicesAndFoldersArePassedOver) {
  Bytes tar;
  for (const char type : {'2', '3', '4', '5', '6'}) {
    tar += tar_member(std::string("entry") + type, "", type);
  }
  tar += tar_member("file", "x", '0') + Bytes(1024, '\0');
  const Walked walked = walk_bytes(tar);
  ASSERT_TRUE(walked.status) << walked.status.error().to_string();
  ASSERT_EQ(walked.seen.size(), 1U);
  EXPECT_EQ(walked.seen[0].name, "file");
}

TEST(Archive, AClaimedSizeTakesNoMemory) {
  const Bytes tar = tar_seal(tar_header("huge.jpg", "77777777777", '0')) + Bytes(2048, 'x');
  int visits = 0;
  const Status status = walk_archive_bytes(tar, "x", [&](ArchiveMember& member) -> Status {
    ++visits;
    EXPECT_EQ(member.size_bytes(), 8'589'934'591);
    EXPECT_FALSE(member.offset());
    const Result<Bytes> limited = member.read(kBytesMax);
    EXPECT_FALSE(limited);
    EXPECT_EQ(limited.error().code, Code::exhausted);
    const Result<Bytes> content = member.read(int64_t{1} << 40);
    EXPECT_FALSE(content);
    EXPECT_EQ(content.error().code, Code::corrupt);
    return {};
  });
  EXPECT_EQ(visits, 1);
  EXPECT_FALSE(status);
}

TEST(Archive, AZipBombIsCutOffAtTheLimit) {
  const Bytes bomb = pack_archive("zip", {{"zeros.png", Bytes(1 << 22, '\0')}});
  ASSERT_LT(bomb.size(), 20'000U);
  for (const int64_t limit : {1000, 1 << 20, (1 << 22) - 1}) {
    const Status status = walk_archive_bytes(bomb, "x", [&](ArchiveMember& member) -> Status {
      RETURN_IF_ERROR(member.read(limit));
      return {};
    });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::exhausted);
  }
}

TEST(Archive, SparseMembersAreReadWithTheirHoles) {
  // GNU's old form: 512 bytes at 1024 of a file of 4096.
  Bytes header = tar_header("sparse.jpg", "00000001000", 'S');
  header.replace(257, 8, Bytes("ustar  \0", 8));
  header.replace(386, 11, "00000002000");
  header.replace(398, 11, "00000001000");
  header.replace(483, 11, "00000010000");
  const Walked walked = walk_bytes(tar_seal(header) + Bytes(512, 'd') + Bytes(1024, '\0'));
  ASSERT_TRUE(walked.status) << walked.status.error().to_string();
  ASSERT_EQ(walked.seen.size(), 1U);
  EXPECT_FALSE(walked.seen[0].offset);
  EXPECT_EQ(walked.seen[0].content, Bytes(1024, '\0') + Bytes(512, 'd') + Bytes(2560, '\0'));
}

// Cut anywhere, an archive is an error or (only behind its end mark) still whole.
TEST(Archive, CutShortAnywhereIsNeverTakenForWhole) {
  const TestFiles files = {{"a.jpg", varied_bytes(700)}, {"b.jpg", varied_bytes(512)}, {"c", "x"}};
  const TestFolder folder;
  for (const std::string kind : {"pax", "ustar", "zip", "zip-stored", "pax.gz", "pax.zst"}) {
    const Bytes whole = pack_archive(kind, files);
    const bool is_plain_tar = kind == "pax" || kind == "ustar";
    const size_t end = is_plain_tar ? whole.size() - 512 : whole.size();
    for (size_t length = 0; length < whole.size(); ++length) {
      const Bytes cut = whole.substr(0, length);
      const Walked walked = walk_bytes(cut);
      if (walked.status) {
        EXPECT_GE(length, end) << kind << " cut at " << length;
        EXPECT_EQ(walked.seen.size(), files.size()) << kind << " cut at " << length;
      } else {
        EXPECT_EQ(walked.status.error().code, Code::corrupt);
      }
      for (size_t i = 0; i < walked.seen.size(); ++i) {
        EXPECT_EQ(walked.seen[i].content, files[i].second);
      }
      if (length % 61 != 0) continue;
      const std::string path = folder.write("cut", cut);
      const Status status = walk_archive(path, nullptr, [](ArchiveMember& member) -> Status {
        (void)member.offset();
        return {};
      });
      if (length < end && is_plain_tar) {
        EXPECT_FALSE(status) << kind << " cut at " << length;
      }
    }
  }
}

TEST(Archive, FlippedBitsAndGarbageAreErrorsAtMost) {
  const Bytes inner = pack_archive("ustar", {{"a.jpg", varied_bytes(600)}});
  for (const std::string kind :
       {"pax", "gnutar", "zip", "zip-stored", "pax.gz", "pax.bz2", "pax.xz", "pax.zst"}) {
    const Bytes whole = pack_archive(kind, {{"a.tar", inner}, {"b.jpg", Bytes(900, 'b')}});
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 400) {
      for (const int bit : {0, 3, 7}) {
        Bytes damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        walk_archive_bytes(damaged, "x", [&](ArchiveMember& member) -> Status {
          (void)member.offset();
          if (member.name().ends_with(".tar")) {
            return member.walk([](ArchiveMember& part) -> Status {
              return part.read(kBytesMax) ? Status() : Status(fail(Code::corrupt, "part"));
            });
          }
          return member.read(kBytesMax) ? Status() : Status(fail(Code::corrupt, "member"));
        }).permit_unchecked_error();
      }
    }
  }
  for (size_t length = 0; length < 3000; length += 17) {
    EXPECT_FALSE(walk_bytes(varied_bytes(length)).status) << length;
  }
}

TEST(Archive, ADamagedZipMemberIsCorruptAndNamed) {
  Bytes zip = pack_archive("zip-stored", {{"good.jpg", "good"}, {"bad.jpg", "content-of-bad"}});
  zip[zip.find("content-of-bad")] = 'C';
  const Walked walked = walk_bytes(zip);
  ASSERT_FALSE(walked.status);
  EXPECT_EQ(walked.status.error().code, Code::corrupt);
  EXPECT_THAT(walked.status.error().message, HasSubstr("bad.jpg"));
}

TEST(Archive, AnErrorOfTheVisitorEndsTheWalk) {
  int visits = 0;
  const Status status =
      walk_archive_bytes(pack_archive("pax", some_files()), "x", [&](ArchiveMember&) -> Status {
        ++visits;
        return fail(Code::cancelled, "enough");
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::cancelled);
  EXPECT_EQ(visits, 1);
}

TEST(Archive, AFileCutWhileItIsReadIsAnError) {
  const TestFolder folder;
  TestFiles files;
  for (int i = 0; i < 40; ++i) files.emplace_back(std::to_string(i), varied_bytes(100'000));
  const std::string path = folder.write("x.tar", pack_archive("ustar", files));
  int visits = 0;
  const Status status = walk_archive(path, nullptr, [&](ArchiveMember& member) -> Status {
    if (++visits == 2) std::filesystem::resize_file(path, 150'000);
    RETURN_IF_ERROR(member.read(kBytesMax));
    return {};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::unavailable);
  EXPECT_THAT(status.error().message, HasSubstr("became shorter"));
}

TEST(Archive, WhatIsNoFileIsRefusedWithoutWaiting) {
  const TestFolder folder;
  const auto visit = [](ArchiveMember&) -> Status { return {}; };
  EXPECT_EQ(walk_archive(folder.path() + "/none.tar", nullptr, visit).error().code,
            Code::not_found);
  EXPECT_EQ(walk_archive(folder.path(), nullptr, visit).error().code, Code::invalid);
  const std::string pipe = folder.path() + "/pipe.tar";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(walk_archive(pipe, nullptr, visit).error().code, Code::invalid);
}

TEST(Archive, IsToldByNameOrFirstBytes) {
  const TestFolder folder;
  EXPECT_TRUE(looks_like_archive("anything.TAR.GZ"));
  EXPECT_TRUE(looks_like_archive("x.zip"));
  EXPECT_FALSE(looks_like_archive(folder.write("text", "hello")));
  EXPECT_FALSE(looks_like_archive(folder.path()));
  for (const std::string kind :
       {"pax", "gnutar", "zip", "pax.gz", "pax.bz2", "pax.xz", "pax.zst"}) {
    EXPECT_TRUE(looks_like_archive(folder.write("x", pack_archive(kind, some_files())))) << kind;
  }
}

}  // namespace
}  // namespace tern
