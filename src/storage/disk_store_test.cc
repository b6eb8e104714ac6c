#include "storage/disk_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>

#include "storage/sim_file_door.h"

namespace tern {
namespace {

using Path = std::filesystem::path;
using Unsynced = SimFileDoor::Unsynced;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names_in(ObjectStore& store) {
  std::vector<std::string> names;
  const std::vector<ObjectInfo> found = store.list("").value();
  for (const ObjectInfo& info : found) names.push_back(info.name);
  return names;
}

// --- The simulated machine: crash at every operation of every verb. -----------------------------

// One verb on one object: what is there before, the call, what must be there once it is
// acknowledged. "" stands for absent.
struct CrashCase {
  std::string what;
  std::string name;
  Bytes before;
  std::function<Status(ObjectStore&)> act;
  Bytes after;
};

std::vector<CrashCase> crash_cases() {
  const Bytes before(1000, 'o');
  const Bytes after(3000, 'n');
  const auto put = [after](const std::string& name) {
    return [=](ObjectStore& store) { return store.put(name, after); };
  };
  const auto create = [after](const std::string& name) {
    return [=](ObjectStore& store) { return store.create(name, after); };
  };
  return {
      {"put of a new name", "new", "", put("new"), after},
      {"put in new folders", "deep/er/new", "", put("deep/er/new"), after},
      {"put over another", "dir/x", before, put("dir/x"), after},
      {"create", "dir/new", "", create("dir/new"), after},
      {"create in new folders", "deep/er/new", "", create("deep/er/new"), after},
      {"remove", "dir/x", before, [](ObjectStore& store) { return store.remove("dir/x"); }, ""},
  };
}

// Returns false once the operations of the verb are used up.
bool crash_once(const CrashCase& c, int64_t operation, Unsynced unsynced) {
  SCOPED_TRACE(c.what + ", crash at operation " + std::to_string(operation) +
               (unsynced == Unsynced::lost ? ", unsynced names lost" : ", unsynced names kept"));
  SimFileDoor door;
  auto store = DiskStore::open("/a/folder", door).value();
  EXPECT_TRUE(store->put("dir/bystander", "here"));
  if (!c.before.empty()) TERN_CHECK(store->put(c.name, c.before));

  const int64_t begin = door.operations();
  door.crash_at(begin + operation);
  const Status acted = c.act(*store);
  const bool was_reached = door.operations() >= begin + operation;
  door.crash(unsynced);

  store = DiskStore::open("/a/folder", door).value();
  const Result<Bytes> found = store->get(c.name);
  EXPECT_TRUE(found || found.error().code == Code::not_found);
  const Bytes seen = found.value_or("");
  EXPECT_TRUE(seen == c.before || seen == c.after) << "half an object: " << seen.size();
  EXPECT_TRUE(!acted || seen == c.after) << "acknowledged, but lost";
  EXPECT_EQ(store->get("dir/bystander").value_or("lost"), "here");
  EXPECT_EQ(names_in(*store).size(), seen.empty() ? 1U : 2U);

  // The store works after the crash, and the verb can be done again.
  const Status again = c.act(*store);
  EXPECT_TRUE(again || again.error().code == Code::already_exists);
  EXPECT_EQ(store->get(c.name).value_or(""), c.after);
  return was_reached;
}

TEST(DiskStoreCrash, LeavesTheOldOrTheNewObjectAtEveryOperation) {
  for (const CrashCase& c : crash_cases()) {
    for (const Unsynced unsynced : {Unsynced::lost, Unsynced::names_kept}) {
      int64_t operation = 1;
      while (crash_once(c, operation, unsynced)) ++operation;
      EXPECT_GE(operation, c.what == "remove" ? 3 : 7) << c.what << ": too few operations tried";
      EXPECT_LT(operation, 50) << c.what;
    }
  }
}

TEST(DiskStoreCrash, AFolderThatADeadProcessMadeIsSyncedBeforeItIsReliedOn) {
  SimFileDoor door;
  ASSERT_TRUE(door.make_folders("/a/folder/x/y"));  // and it died before it synced
  ASSERT_TRUE(door.sync_folder("/"));
  auto store = DiskStore::open("/a/folder", door).value();
  ASSERT_TRUE(store->create("x/y/z", "kept"));
  door.crash(Unsynced::lost);
  EXPECT_EQ(store->get("x/y/z").value_or("lost"), "kept");
}

TEST(SimFileDoor, ForgetsWhatWasNotSynced) {
  SimFileDoor door;
  ASSERT_TRUE(door.make_folders("/d"));
  ASSERT_TRUE(door.sync_folder("/"));
  ASSERT_TRUE(door.write_new("/d/synced", "1"));
  ASSERT_TRUE(door.sync_folder("/d"));
  ASSERT_TRUE(door.write_new("/d/name_not_synced", "2"));
  ASSERT_TRUE(door.remove("/d/synced"));
  door.crash(Unsynced::lost);
  EXPECT_EQ(door.read("/d/synced").value_or("lost"), "1");
  EXPECT_FALSE(door.read("/d/name_not_synced"));

  door.crash_at(door.operations() + 3);  // made, written, not synced
  EXPECT_EQ(door.write_new("/d/torn", "1234").error().code, Code::unavailable);
  EXPECT_EQ(door.read("/d/synced").error().code, Code::unavailable);
  door.crash(Unsynced::names_kept);
  EXPECT_EQ(door.read("/d/torn").value_or("lost"), "12");
}

// --- The real disk. -----------------------------------------------------------------------------

class DiskStoreTest : public testing::Test {
 protected:
  DiskStoreTest() {
    std::string folder = testing::TempDir() + "disk_store_XXXXXX";
    TERN_CHECK(::mkdtemp(folder.data()) != nullptr);
    root_ = folder;
  }
  ~DiskStoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::unique_ptr<DiskStore> open() { return DiskStore::open(root_, door_).value(); }

  std::vector<std::string> temps() {
    std::vector<std::string> names;
    const auto files = door_.list(root_ / ".tmp");
    if (!files) return names;
    for (const FileInfo& file : *files) names.push_back(file.path);
    return names;
  }

  void write_file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  RealFileDoor door_;
  Path root_;
};

TEST_F(DiskStoreTest, ObjectsAreFilesUnderTheRoot) {
  auto store = open();
  ASSERT_TRUE(store->put("a/b.txt", "hello"));
  EXPECT_EQ(store->local_path("a/b.txt"), root_ / "a/b.txt");
  std::ifstream file(root_ / "a/b.txt");
  std::string text;
  file >> text;
  EXPECT_EQ(text, "hello");
  EXPECT_THAT(temps(), IsEmpty());
  ASSERT_TRUE(store->create("a/c", "x"));
  EXPECT_THAT(temps(), IsEmpty());
}

TEST_F(DiskStoreTest, APipeInPlaceOfAFileIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", root_ / "link");
  std::filesystem::create_symlink("/dev/zero", root_ / "device");
  auto store = open();
  for (const char* name : {"pipe", "link", "device"}) {
    const auto bytes = store->get(name);
    ASSERT_FALSE(bytes.has_value()) << name;
    EXPECT_EQ(bytes.error().code, Code::corrupt) << name;
    EXPECT_THAT(bytes.error().message, HasSubstr("no regular file")) << name;
    EXPECT_EQ(store->get_range(name, 0, 1).error().code, Code::corrupt) << name;
    EXPECT_EQ(store->stat(name).error().code, Code::corrupt) << name;
  }
  EXPECT_THAT(names_in(*store), IsEmpty());
}

TEST_F(DiskStoreTest, LookingLeavesNoTrace) {
  auto store = DiskStore::open(root_ / "typo/", door_).value();
  EXPECT_EQ(store->get("x").error().code, Code::not_found);
  EXPECT_THAT(names_in(*store), IsEmpty());
  EXPECT_TRUE(store->remove("x"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "typo"));
}

TEST_F(DiskStoreTest, AFileIsNoStore) {
  write_file("file", "x");
  const auto opened = DiskStore::open(root_ / "file", door_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::failed_precondition);
  EXPECT_EQ(DiskStore::open("", door_).error().code, Code::invalid);
}

TEST_F(DiskStoreTest, UnfinishedFilesAreNotObjects) {
  write_file(".tmp/unfinished", "half");
  auto store = open();
  EXPECT_THAT(names_in(*store), IsEmpty());
  EXPECT_THAT(store->list(".tmp").value(), IsEmpty());
  EXPECT_THAT(store->list(".tmp/").value(), IsEmpty());
  EXPECT_EQ(store->get(".tmp/unfinished").error().code, Code::invalid);
  EXPECT_EQ(store->put(".tmp/x", "x").error().code, Code::invalid);
  EXPECT_EQ(store->put(".tmp", "x").error().code, Code::invalid);
  EXPECT_EQ(store->local_path(".tmp/x"), std::nullopt);
  EXPECT_TRUE(store->put(".tmpx/.tmp/x", "fine"));
  EXPECT_THAT(names_in(*store), ElementsAre(".tmpx/.tmp/x"));
}

TEST_F(DiskStoreTest, ANameCannotBeAFileAndAFolder) {
  auto store = open();
  ASSERT_TRUE(store->put("a", "file"));
  EXPECT_EQ(store->put("a/b", "x").error().code, Code::failed_precondition);
  EXPECT_EQ(store->create("a/b", "x").error().code, Code::failed_precondition);
  ASSERT_TRUE(store->put("d/e", "file"));
  EXPECT_EQ(store->put("d", "x").error().code, Code::failed_precondition);
  EXPECT_EQ(store->get("a").value(), "file");
  EXPECT_THAT(temps(), IsEmpty());
}

TEST_F(DiskStoreTest, PeoplesOwnFilesDoNotDisturb) {
  write_file("notes\nwith newline", "x");
  write_file("data/mine", "12345");
  std::filesystem::create_symlink(root_ / "data/mine", root_ / "link");
  std::filesystem::create_symlink(root_, root_ / "loop");
  std::filesystem::create_symlink(root_ / "nowhere", root_ / "broken");
  std::filesystem::create_symlink(root_ / "data/mine/x", root_ / "through_a_file");
  std::filesystem::create_symlink("itself", root_ / "itself");
  auto store = open();
  EXPECT_THAT(names_in(*store), ElementsAre("data/mine", "link"));
  EXPECT_EQ(store->get("link").value(), "12345");
  EXPECT_EQ(store->stat("link").value().size_bytes, 5);
}

TEST_F(DiskStoreTest, AFullDiskLeavesTheOldObjectAndNoLeftovers) {
  auto store = open();
  ASSERT_TRUE(store->put("x", "old"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status put = store->put("x", Bytes(5000, 'n'));
  const Status created = store->create("y", Bytes(5000, 'n'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(put.error().code, Code::exhausted);
  EXPECT_EQ(created.error().code, Code::exhausted);
  EXPECT_EQ(store->get("x").value(), "old");
  EXPECT_THAT(names_in(*store), ElementsAre("x"));
  EXPECT_THAT(temps(), IsEmpty());
}

TEST_F(DiskStoreTest, ErrorsSayThePathTheReasonAndTheNextStep) {
  const std::vector<std::pair<int, Code>> meanings = {{ENOSPC, Code::exhausted},
                                                      {EDQUOT, Code::exhausted},
                                                      {EACCES, Code::permission_denied},
                                                      {EPERM, Code::permission_denied},
                                                      {EROFS, Code::permission_denied},
                                                      {ENOENT, Code::not_found},
                                                      {EEXIST, Code::already_exists},
                                                      {EIO, Code::unavailable},
                                                      {ESTALE, Code::unavailable},
                                                      {ENAMETOOLONG, Code::invalid},
                                                      {ENOTDIR, Code::failed_precondition},
                                                      {EXDEV, Code::failed_precondition}};
  for (const auto& [number, code] : meanings) {
    const Error error = file_error("write", "/some/where", number);
    EXPECT_EQ(error.code, code) << number;
    EXPECT_THAT(error.message, HasSubstr("/some/where"));
    EXPECT_THAT(error.message, HasSubstr(std::generic_category().message(number)));
    EXPECT_THAT(error.message, HasSubstr("; "));
  }
}

TEST_F(DiskStoreTest, AFileThatCannotBeLookedAtFailsTheListInsteadOfMissingFromIt) {
  write_file("records/1", "one");
  write_file("records/2", "the newest");
  const uid_t me = ::geteuid();
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((root_ / "records").c_str(), 0444), 0);  // names can be read, files not
  ASSERT_EQ(::seteuid(me == 0 ? 65534 : me), 0);             // modes do not bind root
  const Result<std::vector<FileInfo>> files = door_.list(root_);
  ASSERT_EQ(::seteuid(me), 0);
  ASSERT_EQ(::chmod((root_ / "records").c_str(), 0755), 0);
  ASSERT_FALSE(files.has_value());
  EXPECT_EQ(files.error().code, Code::permission_denied);

  // A link of which it cannot be said whether there is a file behind it.
  std::filesystem::create_symlink(std::string(300, 'x'), root_ / "records/3");
  EXPECT_FALSE(door_.list(root_).has_value());
}

TEST_F(DiskStoreTest, LookingSweepsNothing) {
  const std::string left = "another-boot.1.5.1";  // as of a machine that writes just now
  write_file(".tmp/" + left, "half");
  write_file("keep", "an object");
  auto store = open();
  EXPECT_TRUE(store->get("keep").has_value());
  EXPECT_THAT(names_in(*store), ElementsAre("keep"));
  EXPECT_TRUE(store->stat("keep").has_value());
  EXPECT_THAT(temps(), ElementsAre(left));
  ASSERT_TRUE(store->create("new", "x"));
  EXPECT_THAT(temps(), IsEmpty());
  write_file(".tmp/" + left, "half");
  ASSERT_TRUE(store->put("new", "y"));
  EXPECT_THAT(temps(), ElementsAre(left)) << "once is enough";
}

TEST_F(DiskStoreTest, LeftoversOfTheDeadAreSweptAndNothingElse) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  ASSERT_FALSE(boot.empty());
  write_file(".tmp/" + boot + ".999999999.5.1", "no such pid");
  write_file(".tmp/" + boot + "." + std::to_string(::getpid()) + ".1.1", "our pid, earlier life");
  write_file(".tmp/another-boot.1.5.1", "the machine started again");
  write_file(".tmp/notes.txt", "not ours");
  write_file("keep", "an object");
  auto store = open();
  ASSERT_TRUE(store->put("keep", "an object"));
  EXPECT_THAT(temps(), ElementsAre("notes.txt"));
  EXPECT_THAT(names_in(*store), ElementsAre("keep"));
}

// The real door, with something happening just before each rename or link.
class DisturbedDoor final : public FileDoor {
 public:
  explicit DisturbedDoor(std::function<void()> disturb) : disturb_(std::move(disturb)) {}

  Status link(const Path& from, const Path& to) override {
    disturb_();
    return real_.link(from, to);
  }
  Status rename(const Path& from, const Path& to) override {
    disturb_();
    return real_.rename(from, to);
  }
  Status write_new(const Path& path, BytesView b) override { return real_.write_new(path, b); }
  Status sync_folder(const Path& folder) override { return real_.sync_folder(folder); }
  Result<std::vector<Path>> make_folders(const Path& f) override { return real_.make_folders(f); }
  Status remove(const Path& path) override { return real_.remove(path); }
  Result<Bytes> read(const Path& path) override { return real_.read(path); }
  Result<Bytes> read_range(const Path& path, int64_t offset, int64_t length) override {
    return real_.read_range(path, offset, length);
  }
  Result<int64_t> size_bytes(const Path& path) override { return real_.size_bytes(path); }
  Result<std::string> folder_identity(const Path& f) override { return real_.folder_identity(f); }
  Result<std::vector<FileInfo>> list(const Path& folder) override { return real_.list(folder); }
  bool is_on_this_machine() const override { return true; }

 private:
  RealFileDoor real_;
  const std::function<void()> disturb_;
};

TEST_F(DiskStoreTest, UnfinishedFilesOfTheLivingAreNotSwept) {
  int openings = 0;
  DisturbedDoor door([&] {
    EXPECT_EQ(temps().size(), 1U);
    EXPECT_TRUE(open()->put("other", "other"));
    EXPECT_EQ(temps().size(), 1U);
    ++openings;
  });
  auto store = DiskStore::open(root_, door).value();
  EXPECT_TRUE(store->put("x", "x"));
  EXPECT_TRUE(store->create("y", "y"));
  EXPECT_EQ(openings, 2);
}

TEST_F(DiskStoreTest, TwoStoresOfOneProcessDoNotShareUnfinishedFiles) {
  auto other = open();  // counts its unfinished files as the first does, from 1
  DisturbedDoor door([&] { EXPECT_TRUE(other->put("theirs", "theirs")); });
  auto store = DiskStore::open(root_, door).value();
  EXPECT_TRUE(store->put("ours", "ours"));
  EXPECT_EQ(store->get("ours").value(), "ours");
  EXPECT_EQ(store->get("theirs").value(), "theirs");
}

TEST_F(DiskStoreTest, APublishWhoseTemporaryFileVanishedStartsAgain) {
  int removals_left = 0;
  DisturbedDoor door([&] {
    if (removals_left-- > 0) std::filesystem::remove_all(root_ / ".tmp");
  });
  auto store = DiskStore::open(root_, door).value();
  removals_left = 2;
  EXPECT_TRUE(store->put("a/x", "x"));
  removals_left = 2;
  EXPECT_TRUE(store->create("a/y", "y"));
  EXPECT_EQ(store->get("a/x").value(), "x");
  EXPECT_EQ(store->get("a/y").value(), "y");
  removals_left = 1000;
  EXPECT_EQ(store->put("a/x", "z").error().code, Code::unavailable);
  EXPECT_EQ(store->get("a/x").value(), "x");
}

// Puts and creates for ever, telling each acknowledgement; never returns.
[[noreturn]] void write_until_killed(ObjectStore& store, int round, int acknowledged) {
  for (int32_t i = 0;; ++i) {
    const Bytes bytes(static_cast<size_t>(100'000 + i), static_cast<char>('a' + i % 26));
    if (!store.put("x", bytes)) _exit(1);
    if (!store.create("c" + std::to_string(round) + "/" + std::to_string(i), bytes)) _exit(2);
    if (::write(acknowledged, &i, sizeof i) != sizeof i) _exit(3);
  }
}

TEST_F(DiskStoreTest, AKilledWriterLeavesOnlyWholeObjects) {
  for (int round = 0; round < 25; ++round) {
    auto store = open();
    ASSERT_TRUE(store->put("sweeps", "x"));
    ASSERT_THAT(temps(), IsEmpty()) << "the last one's leftovers were not swept";
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(*store, round, pipe_ends[1]);
    ::close(pipe_ends[1]);
    int32_t last = -1;
    for (int i = 0; i <= round % 5; ++i) ASSERT_EQ(::read(pipe_ends[0], &last, sizeof last), 4);
    // Some work of our own, so that the kill comes at another moment of a put each time.
    for (int i = 0; i < round * 40; ++i) temps();
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &last, sizeof last) == sizeof last) {
    }
    ::close(pipe_ends[0]);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended));

    const Bytes x = store->get("x").value();
    ASSERT_GE(x.size(), 100'000U + static_cast<size_t>(last));
    EXPECT_EQ(x, Bytes(x.size(), static_cast<char>('a' + (x.size() - 100'000) % 26)));
    const auto created = store->list("c" + std::to_string(round) + "/").value();
    EXPECT_GE(created.size(), static_cast<size_t>(last) + 1);
    EXPECT_LE(created.size(), static_cast<size_t>(last) + 2);
    for (const ObjectInfo& info : created) {
      const Bytes bytes = store->get(info.name).value();
      ASSERT_GE(bytes.size(), 100'000U);
      EXPECT_EQ(bytes, Bytes(bytes.size(), static_cast<char>('a' + (bytes.size() - 100'000) % 26)));
    }
  }
}

TEST_F(DiskStoreTest, FolderThatIsMovedAwayIsNotMadeAnewAndIsWrittenToAgainWhenItIsBack) {
  auto store = open();
  ASSERT_TRUE(store->put("dir/x", "first"));
  const Path moved = root_.string() + ".moved";
  std::filesystem::rename(root_, moved);
  EXPECT_EQ(store->put("dir/x", "second").error().code, Code::unavailable);
  EXPECT_EQ(store->create("dir/y", "second").error().code, Code::unavailable);
  EXPECT_EQ(store->remove("dir/x").error().code, Code::unavailable);
  EXPECT_FALSE(std::filesystem::exists(root_));
  // Somebody else's, under the old name.
  std::filesystem::create_directory(root_);
  EXPECT_EQ(store->put("dir/x", "second").error().code, Code::aborted);
  EXPECT_EQ(store->remove("dir/x").error().code, Code::aborted);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  std::filesystem::remove(root_);
  std::filesystem::rename(moved, root_);
  ASSERT_TRUE(store->put("dir/y", "second"));
  EXPECT_EQ(store->get("dir/x").value(), "first");
}

}  // namespace
}  // namespace tern
