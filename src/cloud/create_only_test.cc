#include "cloud/create_only.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::HasSubstr;

// A store whose create() is what some servers make of it.
class BrokenStore final : public ObjectStore {
 public:
  enum class How {
    ignores,           // create is put
    replaces_quietly,  // says already_exists, and has replaced
    looks_first,       // reads, and writes if nothing was there
    last_one_stays,    // one winner, whose bytes the losers then replace
    refuses,           // permission_denied
  };
  explicit BrokenStore(How how) : how_(how) {}

  Status create(const std::string& name, BytesView bytes) override {
    switch (how_) {
      case How::ignores: return inner_.put(name, bytes);
      case How::replaces_quietly: {
        const Status created = inner_.create(name, bytes);
        RETURN_IF_ERROR(inner_.put(name, bytes));
        return created;
      }
      case How::looks_first: {
        const bool taken = inner_.stat(name).has_value();
        // All eight of a race look before the first of them writes.
        if (!name.ends_with("/0")) looked_.arrive_and_wait();
        if (taken) return fail(Code::already_exists, name);
        return inner_.put(name, bytes);
      }
      case How::last_one_stays: {
        const Status created = inner_.create(name, bytes);
        if (!name.ends_with("/0")) RETURN_IF_ERROR(inner_.put(name, "somebody else's"));
        return created;
      }
      case How::refuses: return fail(Code::permission_denied, "no right to write");
    }
    return {};
  }

  Result<Bytes> get(const std::string& name) override { return inner_.get(name); }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return inner_.get_range(name, offset, length);
  }
  Status put(const std::string& name, BytesView bytes) override { return inner_.put(name, bytes); }
  Result<ObjectInfo> stat(const std::string& name) override { return inner_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return inner_.list(prefix);
  }
  Status remove(const std::string& name) override { return inner_.remove(name); }
  std::optional<std::filesystem::path> local_path(const std::string& name) const override {
    return inner_.local_path(name);
  }

 private:
  const How how_;
  MemoryStore inner_;
  std::barrier<> looked_{8};
};

Error error_of(BrokenStore::How how) {
  BrokenStore store(how);
  const Status checked = check_create_only(store);
  EXPECT_FALSE(checked);
  EXPECT_TRUE(store.list("").value().empty()) << "something was left there";
  return checked ? Error{} : checked.error();
}

TEST(CreateOnly, AnAtomicStoreIsGoodAndLeftAsItWas) {
  MemoryStore store;
  ASSERT_TRUE(store.put("kept", "1"));
  const Status checked = check_create_only(store);
  EXPECT_TRUE(checked) << checked.error().to_string();
  EXPECT_EQ(store.list("").value(), (std::vector<ObjectInfo>{{"kept", 1}}));
}

TEST(CreateOnly, AStoreThatIgnoresItIsRefused) {
  for (const auto how : {BrokenStore::How::ignores, BrokenStore::How::replaces_quietly}) {
    const Error error = error_of(how);
    EXPECT_EQ(error.code, Code::failed_precondition);
    EXPECT_THAT(error.message, HasSubstr("ignores create-only writes"));
    EXPECT_THAT(error.message, HasSubstr("use a store with"));
  }
}

TEST(CreateOnly, AStoreThatLooksFirstAndWritesThenIsRefused) {
  const Error error = error_of(BrokenStore::How::looks_first);
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("8 of 8 had success"));
}

TEST(CreateOnly, AStoreThatKeepsALosersBytesIsRefused) {
  const Error error = error_of(BrokenStore::How::last_one_stays);
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("not what the one winner wrote"));
}

TEST(CreateOnly, AStoreThatCannotBeWrittenSaysSoItself) {
  EXPECT_EQ(error_of(BrokenStore::How::refuses).code, Code::permission_denied);
}

}  // namespace
}  // namespace tern
