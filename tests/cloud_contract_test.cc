// Every cloud's store keeps the contract of all stores on a real server, also when a fifth of the
// requests meets a bad network or a busy server; and a server that cannot keep it is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <barrier>
#include <map>

#include "cloud/create_only.h"
#include "cloud_under_test.h"
#include "core/random.h"
#include "storage/object_store_contract.h"
#include "storage/prefix_store.h"
#include "storage/sequence.h"

namespace tern {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kMebibyte = int64_t{1} << 20;
// S3 takes no smaller parts.
const BucketOptions kSmallParts{.part_bytes = 5 * kMebibyte, .in_flight_max = 8};

// Marks the present test as skipped, from where nothing can be returned.
void skip(const std::string& reason) { GTEST_SKIP() << reason; }

class OneBucket final : public StoreUnderTest {
 public:
  explicit OneBucket(CloudUnderTest& cloud) : opened_(cloud.open_new_bucket(kSmallParts)) {}
  ObjectStore& store() override { return *opened_.bucket; }

 private:
  CloudUnderTest::Opened opened_;
};

// One of each for the whole program: gtest makes the makers anew for every test.
CloudUnderTest& cloud_of(ServerKind kind, Way way) {
  static std::map<std::pair<ServerKind, Way>, std::unique_ptr<CloudUnderTest>> clouds;
  auto& cloud = clouds[{kind, way}];
  if (cloud == nullptr) cloud = std::make_unique<CloudUnderTest>(kind, way);
  return *cloud;
}

StoreMaker maker_of(ServerKind kind, Way way) {
  return {.name = name_of(kind, way), .make = [=]() -> std::unique_ptr<StoreUnderTest> {
            const std::string missing = StoreServer::missing(kind);
            if (!missing.empty()) skip(missing);
            if (!missing.empty()) return nullptr;
            return std::make_unique<OneBucket>(cloud_of(kind, way));
          }};
}

Bytes random_bytes(int64_t size, uint64_t seed) {
  Bytes bytes;
  bytes.reserve(static_cast<size_t>(size) + 4);
  for (Random random(seed, Stream::fingerprint, 0); static_cast<int64_t>(bytes.size()) < size;) {
    const uint32_t word = random.next();
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift);
  }
  bytes.resize(static_cast<size_t>(size));
  return bytes;
}

TEST_P(ObjectStoreContract, AnObjectOfManyPartsSurvives) {
  const Bytes bytes = random_bytes(17 * kMebibyte + 3, 1);
  put("large", bytes);
  EXPECT_EQ(store().stat("large").value(), (ObjectInfo{"large", 17 * kMebibyte + 3}));
  EXPECT_TRUE(store().get("large").value() == bytes);
  EXPECT_TRUE(store().get_range("large", 5 * kMebibyte - 2, 5).value() ==
              bytes.substr(5 * kMebibyte - 2, 5));
  const Bytes other = random_bytes(12 * kMebibyte, 2);
  EXPECT_EQ(code_of(store().create("large", other)), Code::already_exists);
  EXPECT_TRUE(store().get("large").value() == bytes);
  const Status created = store().create("created", other);
  ASSERT_TRUE(created) << created.error().to_string();
  EXPECT_TRUE(store().get("created").value() == other);
  put("large", "small again");
  EXPECT_EQ(store().get("large").value(), "small again");
  EXPECT_EQ(list(""), (std::vector<std::string>{"created", "large"}));
}

TEST_P(ObjectStoreContract, ManyRangesAndManyRemovalsAtOnceAreEachAsOne) {
  const Bytes bytes = random_bytes(300'000, 3);
  put("r", bytes);
  std::vector<ObjectRange> ranges;
  for (int64_t i = 0; i < 60; ++i) ranges.push_back({"r", 5000 * i + i % 7, 3000});
  ranges[17].name = "absent";
  ranges[23].offset = 300'001;
  const auto got = store().get_ranges(ranges);
  ASSERT_EQ(got.size(), ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i == 17 || i == 23) {
      EXPECT_EQ(code_of(got[i]), i == 17 ? Code::not_found : Code::invalid);
    } else {
      EXPECT_EQ(got[i].value_or(""), bytes.substr(static_cast<size_t>(ranges[i].offset), 3000));
    }
  }
  std::vector<std::string> names = {"never there"};
  for (int i = 0; i < 40; ++i) {
    names.push_back(fmt::format("many/\xC3\xA9 {}+%&<", i));
    put(names.back(), "x");
  }
  EXPECT_EQ(list("many/").size(), 40U);
  const Status removed = store().remove_all(names);
  EXPECT_TRUE(removed) << removed.error().to_string();
  EXPECT_EQ(list(""), std::vector<std::string>{"r"});
}

TEST_P(ObjectStoreContract, IsAPlaceForCheckpoints) {
  const Status checked = check_create_only(store());
  EXPECT_TRUE(checked) << checked.error().to_string();
  EXPECT_TRUE(list("").empty());
}

TEST_P(ObjectStoreContract, TwentyRacesOfEightTakersHaveOneHolderEach) {
  constexpr int kTakers = 8;
  SystemClock clock;
  for (int race = 0; race < 20; ++race) {
    PrefixStore run(store(), fmt::format("run-{}/checkpoints", race));
    std::vector<std::unique_ptr<Sequence>> holders(kTakers);
    std::vector<Code> losses(kTakers, Code::aborted);
    std::vector<std::string> problems(kTakers);
    {
      std::barrier start(kTakers);
      std::vector<std::jthread> takers;
      for (size_t taker = 0; taker < kTakers; ++taker) {
        takers.emplace_back([&, taker] {
          Sequence::Setup setup{.store = &run, .clock = &clock, .me = this_process().value()};
          start.arrive_and_wait();
          auto taken = Sequence::take(std::move(setup), {});
          if (taken) holders[taker] = std::move(*taken);
          if (!taken) losses[taker] = taken.error().code;
          if (!taken) problems[taker] = taken.error().to_string();
        });
      }
    }
    int holding = 0;
    for (size_t taker = 0; taker < kTakers; ++taker) {
      if (holders[taker] != nullptr) ++holding;
      EXPECT_THAT(losses[taker], AnyOf(Code::aborted, Code::failed_precondition))
          << problems[taker];
    }
    ASSERT_EQ(holding, 1) << "race " << race;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cloud, ObjectStoreContract,
    testing::Values(maker_of(ServerKind::versitygw, Way::direct),
                    maker_of(ServerKind::versitygw, Way::through_faults),
                    maker_of(ServerKind::versitygw_as_aws, Way::direct),
                    maker_of(ServerKind::versitygw_as_aws, Way::through_faults),
                    maker_of(ServerKind::azurite, Way::direct),
                    maker_of(ServerKind::azurite, Way::through_faults),
                    maker_of(ServerKind::fake_gcs, Way::direct),
                    maker_of(ServerKind::fake_gcs, Way::through_faults),
                    maker_of(ServerKind::strict_gcs, Way::direct),
                    maker_of(ServerKind::strict_gcs, Way::through_faults),
                    maker_of(ServerKind::radosgw, Way::direct),
                    maker_of(ServerKind::radosgw, Way::through_faults)),
    [](const testing::TestParamInfo<StoreMaker>& param) { return param.param.name; });

TEST(CloudPlaces, AServerThatIgnoresCreateOnlyIsRefused) {
  if (const auto missing = StoreServer::missing(ServerKind::s3rver); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  CloudUnderTest cloud(ServerKind::s3rver, Way::direct);
  const auto opened = cloud.open_new_bucket();
  ASSERT_TRUE(opened.bucket->put("a", "it works but for that"));
  const Status checked = check_create_only(*opened.bucket);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::failed_precondition) << checked.error().message;
  EXPECT_THAT(checked.error().message, HasSubstr("create-only"));
  EXPECT_THAT(checked.error().message, HasSubstr("use a store with"));
  EXPECT_EQ(opened.bucket->list("").value(), (std::vector<ObjectInfo>{{"a", 21}}));
}

// The whole way: the metadata service of a machine gives the keys, and a server checks them. There
// is no session token, as versitygw knows no sessions.
TEST(CloudPlaces, AnInstanceRoleOpensABucket) {
  for (const ServerKind kind : {ServerKind::metadata_mock, ServerKind::versitygw}) {
    if (const auto missing = StoreServer::missing(kind); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
  }
  CloudUnderTest cloud(ServerKind::versitygw, Way::direct);
  Variables variables = cloud.server().variables();
  ScratchFolder scratch;
  write_text(scratch / "metadata.json",
             fmt::format(R"({{"metadata": {{"values": {{"iam-security-credentials": {{
                "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "{}",
                "SecretAccessKey": "{}", "Token": "", "Expiration": "2999-01-01T00:00:00Z"
             }}}}}}}})",
                         variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]));
  StoreServer metadata({.kind = ServerKind::metadata_mock,
                        .arguments = {"--config-file", (scratch / "metadata.json").string()}});
  variables.erase("AWS_ACCESS_KEY_ID");
  variables.erase("AWS_SECRET_ACCESS_KEY");
  variables.merge(metadata.variables());
  SystemClock clock;
  CloudDoor door(surroundings_of(variables, scratch.path()), clock);
  auto bucket = door.open_bucket(parse_store_address("s3://by-role").value());
  ASSERT_TRUE(bucket) << bucket.error().to_string();
  const Status made = (*bucket)->make_bucket();
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_TRUE((*bucket)->create("a", "by a role"));
  EXPECT_EQ((*bucket)->get("a").value(), "by a role");
  EXPECT_THAT((*bucket)->credentials().value(), HasSubstr("baskinc-role"));
}

}  // namespace
}  // namespace tern
