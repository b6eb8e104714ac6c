#include "storage/object_store_contract.h"

#include <stdlib.h>

#include <filesystem>

#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/prefix_store.h"
#include "storage/retry_store.h"
#include "storage/sim_file_door.h"

namespace tern {
namespace {

class Memory : public StoreUnderTest {
 public:
  ObjectStore& store() override { return memory_; }

 private:
  MemoryStore memory_;
};

class Disk : public StoreUnderTest {
 public:
  Disk() {
    std::string folder = testing::TempDir() + "contract_XXXXXX";
    TERN_CHECK(::mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    // A root that does not exist yet: the store makes it.
    store_ = DiskStore::open(folder_ / "deep" / "root", door_).value();
  }
  ~Disk() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ObjectStore& store() override { return *store_; }

 private:
  RealFileDoor door_;
  std::filesystem::path folder_;
  std::unique_ptr<DiskStore> store_;
};

class SimDisk : public StoreUnderTest {
 public:
  ObjectStore& store() override { return *store_; }

 private:
  SimFileDoor door_;
  std::unique_ptr<DiskStore> store_ = DiskStore::open("/root", door_).value();
};

constexpr std::string_view kPrefix = "some/prefix";

class Prefix : public StoreUnderTest {
 public:
  Prefix() {
    // Neighbours that must stay invisible.
    TERN_CHECK(memory_.put("some/other", "x") && memory_.put("some/prefixed", "x"));
  }
  ObjectStore& store() override { return prefix_; }

 private:
  MemoryStore memory_;
  PrefixStore prefix_{memory_, std::string(kPrefix)};
};

class Retry : public StoreUnderTest {
 public:
  ObjectStore& store() override { return retry_; }

 private:
  SimClock clock_;
  MemoryStore memory_;
  RetryStore retry_{memory_, RetryOptions{}, clock_, 1};
};

class Faulty : public StoreUnderTest {
 public:
  ObjectStore& store() override { return faulty_; }

 private:
  MemoryStore memory_;
  FaultyStore faulty_{memory_};
};

// Every third request fails, in turn before and after it was done.
class RetryOverFaulty : public StoreUnderTest {
 public:
  RetryOverFaulty() {
    for (int64_t n = 3; n < 10'000; n += 3) {
      faulty_.inject(n, n % 2 == 0 ? Fault::fail_after : Fault::fail_before);
    }
  }
  ObjectStore& store() override { return retry_; }

 private:
  // Threads take turns at failing, so one of them may meet several failures in a row, and all move
  // the one clock.
  static constexpr RetryOptions kPatient{.attempts_max = 1000, .total_max = Milliseconds(1 << 30)};

  SimClock clock_;
  MemoryStore memory_;
  FaultyStore faulty_{memory_};
  RetryStore retry_{faulty_, kPatient, clock_, 1};
};

template <typename T>
StoreMaker maker(std::string name, size_t name_bytes_max = 900) {
  return {std::move(name), [] { return std::make_unique<T>(); }, name_bytes_max};
}

INSTANTIATE_TEST_SUITE_P(All, ObjectStoreContract,
                         testing::Values(maker<Memory>("Memory"), maker<Disk>("Disk"),
                                         maker<SimDisk>("SimDisk"),
                                         maker<Prefix>("Prefix", 900 - kPrefix.size() - 1),
                                         maker<Retry>("Retry"), maker<Faulty>("Faulty"),
                                         maker<RetryOverFaulty>("RetryOverFaulty")),
                         [](const auto& tested) { return tested.param.name; });

TEST(PrefixStore, ObjectsLieUnderThePrefix) {
  MemoryStore memory;
  for (const std::string prefix : {"runs/demo", "runs/demo/"}) {
    PrefixStore run(memory, prefix);
    ASSERT_TRUE(run.put("run.toml", "x"));
    EXPECT_EQ(memory.list("").value(), (std::vector<ObjectInfo>{{"runs/demo/run.toml", 1}}));
  }
  PrefixStore whole(memory, "");
  EXPECT_EQ(whole.get("runs/demo/run.toml").value(), "x");
}

TEST(RetryStore, LocalPathIsThatOfTheInnerStore) {
  RealFileDoor door;
  SimClock clock;
  auto disk = DiskStore::open("/r", door).value();
  RetryStore retry(*disk, RetryOptions{}, clock, 1);
  EXPECT_EQ(retry.local_path("log.txt"), std::filesystem::path("/r/log.txt"));
}

TEST(PrefixStore, LocalPathIncludesThePrefix) {
  RealFileDoor door;
  auto disk = DiskStore::open("/r", door).value();
  PrefixStore run(*disk, "runs/demo");
  EXPECT_EQ(run.local_path("log.txt"), std::filesystem::path("/r/runs/demo/log.txt"));
  EXPECT_EQ(run.local_path("../x"), std::nullopt);
  MemoryStore memory;
  EXPECT_EQ(PrefixStore(memory, "p").local_path("x"), std::nullopt);
}

}  // namespace
}  // namespace tern
