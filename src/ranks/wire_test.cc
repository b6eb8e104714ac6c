#include "ranks/wire.h"

#include <gtest/gtest.h>

#include <limits>

#include "ranks/messages.h"

namespace tern {
namespace {

Bytes payload(const Bytes& frame) { return frame.substr(4); }

TEST(Wire, FieldsComeBackAsTheyWerePut) {
  const Bytes frame = FrameWriter(Message::set)
                          .number(std::numeric_limits<int64_t>::min())
                          .real(-0.5)
                          .text(BytesView("a\0b", 3))
                          .byte(255)
                          .finish();
  FieldReader fields(BytesView(frame).substr(4));
  EXPECT_EQ(fields.byte(), static_cast<uint8_t>(Message::set));
  EXPECT_EQ(fields.number(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(fields.real(), -0.5);
  EXPECT_EQ(fields.text(), BytesView("a\0b", 3));
  EXPECT_EQ(fields.byte(), 255);
  EXPECT_TRUE(fields.finish().has_value());
}

TEST(Wire, TheBytesAreThoseOfTheFormatsPage) {
  EXPECT_EQ(FrameWriter(Message::remove).number(258).text("k").finish(),
            Bytes("\x0e\0\0\0"
                  "\x14"
                  "\x02\x01\0\0\0\0\0\0"
                  "\x01\0\0\0k",
                  18));
}

TEST(Wire, WhatIsCutShortOrTooLongIsCorrupt) {
  const Bytes whole = payload(FrameWriter(Message::set).number(1).text("key").finish());
  for (size_t length = 0; length < whole.size(); ++length) {
    FieldReader fields(BytesView(whole).substr(0, length));
    fields.byte();
    fields.number();
    EXPECT_EQ(fields.text(), "") << length;
    EXPECT_FALSE(fields.finish().has_value()) << length;
  }
  FieldReader rest(whole);
  rest.byte();
  rest.number();
  EXPECT_FALSE(rest.finish().has_value());
}

TEST(Wire, ATextThatClaimsMoreThanItsLimitIsNotTaken) {
  const Bytes frame = payload(FrameWriter(Message::set).text("12345").finish());
  FieldReader fields(frame);
  fields.byte();
  EXPECT_EQ(fields.text(4), "");
  EXPECT_TRUE(fields.has_failed());
}

TEST(Frames, AreFoundInPiecesOfAnySize) {
  const Bytes stream = FrameWriter(Message::get).text("one").finish() +
                       FrameWriter(Message::leave).finish() +
                       FrameWriter(Message::get).text(Bytes(1000, 'x')).finish();
  for (size_t piece = 1; piece < 20; ++piece) {
    FrameReader reader(kFrameBytesMax);
    std::vector<size_t> sizes;
    for (size_t i = 0; i < stream.size(); i += piece) {
      reader.add(BytesView(stream).substr(i, piece));
      while (true) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame.has_value());
        if (!frame->has_value()) break;
        sizes.push_back((*frame)->size());
      }
    }
    EXPECT_EQ(sizes, (std::vector<size_t>{8, 1, 1005})) << piece;
    EXPECT_FALSE(reader.has_part());
  }
}

TEST(Frames, AnEmptyOrOversizedOneIsRefusedByItsLengthAlone) {
  for (const Bytes& length :
       {Bytes("\0\0\0\0", 4), Bytes("\x01\x01\0\0", 4), Bytes("\xff\xff\xff\xff", 4)}) {
    FrameReader reader(256);
    reader.add(length);
    EXPECT_FALSE(reader.next().has_value());
  }
  FrameReader reader(256);
  reader.add(Bytes("\0\x01\0\0", 4));
  EXPECT_TRUE(reader.next().has_value());
}

TEST(Messages, ComeBackAsTheyWerePut) {
  const Hello hello{
      .nonce = Bytes(32, 'n'), .who = {.machine = 1, .id = 2, .pid = 3}, .proof = Bytes(32, 'p')};
  const auto hello_back = decode_hello(payload(encode(hello)));
  ASSERT_TRUE(hello_back);
  EXPECT_EQ(hello_back->who, hello.who);
  EXPECT_EQ(hello_back->proof, hello.proof);
  EXPECT_LE(payload(encode(hello)).size(), kStrangerFrameBytesMax);

  const RankGroup group{.generation = 7,
                        .rank = 1,
                        .world = 2,
                        .source = 0,
                        .step = 40,
                        .group_id = "abc",
                        .may_take_over = false,
                        .interface_address = "",
                        .members = {"a", "b"}};
  const auto group_back = decode_group(encode_group(group));
  ASSERT_TRUE(group_back);
  EXPECT_EQ(group_back->members, group.members);
  EXPECT_EQ(group_back->step, 40);
  EXPECT_EQ(group_back->group_id, "abc");
  EXPECT_FALSE(group_back->may_take_over);

  const Bytes join = payload(encode_join(
      6, {.step = 3, .agreement = "a", .settings = "s", .lease = 9, .generation = 8, .rank = 7}));
  FieldReader fields(join);
  EXPECT_EQ(fields.byte(), static_cast<uint8_t>(Message::join));
  EXPECT_EQ(fields.number(), 6);
  const RankJoin join_back = read_join(fields);
  ASSERT_TRUE(fields.finish());
  EXPECT_EQ(join_back.lease, 9);
  EXPECT_EQ(join_back.generation, 8);
  EXPECT_EQ(join_back.rank, 7);

  const Notice notice{
      .kind = NoticeKind::advice, .source = "s", .unix_ms = 5, .deadline_unix_ms = 6, .id = "i"};
  const auto notice_back = decode_notice(payload(encode(notice)));
  ASSERT_TRUE(notice_back);
  EXPECT_EQ(notice_back->kind, NoticeKind::advice);
  EXPECT_EQ(notice_back->deadline_unix_ms, 6);

  const auto failed = decode_answer(payload(encode_answer(9, fail(Code::aborted, "why"))));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->request, 9);
  ASSERT_FALSE(failed->value);
  EXPECT_EQ(failed->value.error().to_string(), "aborted: why");
}

TEST(Messages, AGroupThatCannotBeIsCorrupt) {
  const RankGroup good{.generation = 1, .rank = 0, .world = 1, .members = {"a"}};
  EXPECT_TRUE(decode_group(encode_group(good)));
  for (const auto& [rank, world] :
       {std::pair<int64_t, int64_t>{1, 1}, {-1, 1}, {0, 0}, {0, 1'000'000'000'000}, {0, 2}}) {
    RankGroup bad = good;
    bad.rank = rank;
    bad.world = world;
    EXPECT_FALSE(decode_group(encode_group(bad))) << rank << " of " << world;
  }
}

TEST(Messages, AGenerationThatIsToldCanBeCountedOn) {
  const Bytes join = payload(encode_join(1, {.generation = INT64_MAX, .rank = -5}));
  FieldReader fields(join);
  fields.byte();
  fields.number();
  const RankJoin back = read_join(fields);
  EXPECT_LT(back.generation, INT64_MAX / 2);
  EXPECT_EQ(back.rank, -1);
}

TEST(GroupId, IsOfTheSecretAndDoesNotTellIt) {
  EXPECT_EQ(group_id_of("secret").size(), 32U);
  EXPECT_EQ(group_id_of("secret"), group_id_of("secret"));
  EXPECT_NE(group_id_of("secret"), group_id_of("Secret"));
}

TEST(Proof, DependsOnEverythingThatWasSaid) {
  const Hello hello{.nonce = "n", .who = {1, 2, 3}};
  const Bytes proof = hello_proof("secret", "challenge", hello);
  EXPECT_TRUE(same_proof(proof, hello_proof("secret", "challenge", hello)));
  EXPECT_FALSE(same_proof(proof, hello_proof("Secret", "challenge", hello)));
  EXPECT_FALSE(same_proof(proof, hello_proof("secret", "Challenge", hello)));
  EXPECT_FALSE(same_proof(proof, welcome_proof("secret", "challenge", hello)));
  Hello other = hello;
  other.who.id = 9;
  EXPECT_FALSE(same_proof(proof, hello_proof("secret", "challenge", other)));
  other = hello;
  other.nonce = "m";
  EXPECT_FALSE(same_proof(proof, hello_proof("secret", "challenge", other)));
  other = hello;
  other.role = Role::supervisor;
  EXPECT_FALSE(same_proof(proof, hello_proof("secret", "challenge", other)));
  EXPECT_FALSE(same_proof(proof, ""));
}

}  // namespace
}  // namespace tern
