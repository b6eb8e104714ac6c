#include "program/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using When = CheckpointFolder::When;

// A machine with its folder; the store is all machines'.
class Machine {
 public:
  Machine(ObjectStore& run, std::string writer, SimClock& clock)
      : path_(testing::TempDir() + "checkpoints_XXXXXX"),
        run_(run),
        writer_(std::move(writer)),
        clock_(clock) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    fs::create_directory(files());
    start();
  }
  ~Machine() { fs::remove_all(path_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  fs::path files() const { return fs::path(path_) / "files"; }
  // As another process on the same machine.
  void start() {
    folder_.emplace(
        CheckpointFolder::Setup{.run = &run_,
                                .folder = files(),
                                .work = path_,
                                .writer = writer_,
                                .clock = &clock_,
                                .warn = [this](const std::string& w) { warnings_.push_back(w); }});
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((files() / name).parent_path());
    std::ofstream(files() / name, std::ios::binary | std::ios::trunc) << text;
  }
  std::map<std::string, std::string> content() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(files())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      all[entry.path().lexically_relative(files()).string()] = {
          std::istreambuf_iterator<char>(file), {}};
    }
    return all;
  }
  CheckpointFolder& folder() { return *folder_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The number of what was saved; 0: nothing was new.
  int64_t save(When when = When::now) {
    const auto saved = folder_->save(when);
    EXPECT_TRUE(saved) << saved.error().to_string();
    return saved && *saved ? (*saved)->number : 0;
  }

 private:
  std::string path_;
  ObjectStore& run_;
  const std::string writer_;
  SimClock& clock_;
  std::vector<std::string> warnings_;
  std::optional<CheckpointFolder> folder_;
};

class CheckpointFolderTest : public testing::Test {
 protected:
  std::vector<std::string> objects(const std::string& prefix) {
    std::vector<std::string> names;
    const auto listed = run_.list(prefix);
    for (const ObjectInfo& object : *listed) names.push_back(object.name);
    return names;
  }

  SimClock clock_;
  MemoryStore run_;
  Machine a_{run_, "aaaaaaaaaaaa", clock_};
  Machine b_{run_, "bbbbbbbbbbbb", clock_};
};

TEST_F(CheckpointFolderTest, WhatWasSavedIsRestoredOnAnotherMachine) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("step-1.pt", "weights");
  a_.write("deep/er/optimizer.pt", std::string(3 << 20, 'x'));
  a_.write("empty", "");
  EXPECT_EQ(a_.save(), 1);
  EXPECT_EQ(a_.save(), 0) << "nothing is new";
  b_.write("stray.pt", "of a group that was lost");
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  EXPECT_EQ(b_.content(), a_.content());
  EXPECT_THAT(b_.content(), SizeIs(3));
}

TEST_F(CheckpointFolderTest, AFileIsSavedOnceItRests) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(When::settled), 0) << "it may still grow";
  EXPECT_EQ(a_.save(When::settled), 1);
  std::ofstream open_file(a_.files() / "y", std::ios::binary);
  open_file << "half" << std::flush;
  EXPECT_EQ(a_.save(When::settled), 0);
  EXPECT_EQ(a_.save(When::settled), 0) << "it is open";
  EXPECT_EQ(a_.save(When::now), 0);
  open_file.close();
  EXPECT_EQ(a_.save(When::settled), 0) << "a kill closes it too";
  EXPECT_EQ(a_.save(When::settled), 2);
}

TEST_F(CheckpointFolderTest, AFileThatIsAlwaysOpenHoldsUpTheOthersForAWhileOnly) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  std::ofstream log(a_.files() / "log", std::ios::binary);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(When::settled), 0);
  EXPECT_EQ(a_.save(When::settled), 0);
  clock_.advance(std::chrono::seconds(6));
  EXPECT_EQ(a_.save(When::settled), 1);
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  EXPECT_THAT(b_.content(), ElementsAre(Pair("x", "1")));
}

TEST_F(CheckpointFolderTest, AFileThatIsReplacedAllTheTimeIsSavedAllTheSame) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  for (int i = 0; i < 3; ++i) {
    a_.write("last.pt.tmp", "weights " + std::to_string(i));
    fs::rename(a_.files() / "last.pt.tmp", a_.files() / "last.pt");
    EXPECT_EQ(a_.save(When::settled), i);
  }
}

TEST_F(CheckpointFolderTest, TemporaryNamesAreNotSaved) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x.tmp", "1");
  a_.write(".hidden/y", "1");
  a_.write("z.part", "1");
  EXPECT_EQ(a_.save(), 0);
}

TEST_F(CheckpointFolderTest, AFileThatChangesWhileItIsCopiedIsNotCommitted) {
  // The file is written again while the store takes another one.
  FaultyStore faulty(run_);
  Machine machine(faulty, "cccccccccccc", clock_);
  EXPECT_EQ(*machine.folder().restore_newest(), 0);
  machine.write("a", "first");
  machine.write("b", "first");
  faulty.inject(faulty.requests() + 1, Fault::delay, [&] { machine.write("b", "another"); });
  EXPECT_EQ(machine.save(), 0);
  EXPECT_THAT(objects(kManifestPrefix), IsEmpty());
  EXPECT_EQ(machine.save(), 1);
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  EXPECT_THAT(b_.content(), ElementsAre(Pair("a", "first"), Pair("b", "another")));
}

// Whether the fault struck.
bool survives(int64_t at, Fault fault, SimClock& clock) {
  MemoryStore run;
  Machine first(run, "dddddddddddd", clock);
  EXPECT_EQ(*first.folder().restore_newest(), 0);
  first.write("x", "old");
  EXPECT_EQ(first.save(), 1);
  FaultyStore faulty(run);
  Machine second(faulty, "eeeeeeeeeeee", clock);
  EXPECT_EQ(*second.folder().restore_newest(), 1);
  second.write("x", "new");
  second.write("y", "new");
  const int64_t begun = faulty.requests();
  faulty.inject(begun + at, fault);
  const auto saved = second.folder().save(When::now);
  const bool has_struck = faulty.requests() >= begun + at;
  Machine third(run, "ffffffffffff", clock);
  const auto restored = third.folder().restore_newest();
  EXPECT_TRUE(restored) << restored.error().to_string();
  if (third.content().at("x") == "old") {
    EXPECT_THAT(third.content(), SizeIs(1));
  } else {
    EXPECT_EQ(third.content(), second.content());
  }
  if (saved) return has_struck;
  // The next try of the same process goes on as if nothing had been.
  const auto again = second.folder().save(When::now);
  EXPECT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(*third.folder().restore_newest(), second.folder().number());
  EXPECT_EQ(third.content(), second.content());
  return has_struck;
}

TEST_F(CheckpointFolderTest, AFailureAtAnyRequestLeavesTheOneBeforeOrTheNewOne) {
  for (const Fault fault : {Fault::fail_before, Fault::fail_after, Fault::tear}) {
    int64_t at = 1;
    while (survives(at, fault, clock_) && !HasFailure()) ++at;
    EXPECT_GT(at, 3) << "two files and a manifest";
  }
}

TEST_F(CheckpointFolderTest, ADamagedCopyIsPassedOverForTheOneBefore) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "first");
  EXPECT_EQ(a_.save(), 1);
  a_.write("x", "second");
  EXPECT_EQ(a_.save(), 2);
  const Manifest newest = *read_manifest(run_, 2);
  ASSERT_TRUE(run_.put(newest.files[0].object, "sec0nd"));
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  EXPECT_THAT(b_.content(), ElementsAre(Pair("x", "first")));
  EXPECT_THAT(b_.warnings(), ElementsAre(HasSubstr("checkpoint 2 cannot be restored")));
  // And what is saved then comes after both.
  b_.write("x", "third");
  EXPECT_EQ(b_.save(), 3);
  Machine other(run_, "cccccccccccc", clock_);
  ASSERT_TRUE(run_.remove(newest.files[0].object));
  EXPECT_EQ(*other.folder().restore_newest(), 3);
}

TEST_F(CheckpointFolderTest, EveryDamagedByteOfAManifestIsFound) {
  const Manifest manifest{.number = 7,
                          .unix_ms = 123,
                          .writer = "w",
                          .files = {{.path = "a/b",
                                     .size_bytes = 3,
                                     .sha256 = std::string(64, '0'),
                                     .object = std::string(kFilePrefix) + "x"}}};
  const Bytes text = format_manifest(manifest);
  ASSERT_TRUE(parse_manifest(text, 7));
  EXPECT_EQ(parse_manifest(text, 7)->files, manifest.files);
  EXPECT_FALSE(parse_manifest(text, 8));
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    Bytes damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(parse_manifest(damaged, 7)) << damaged;
  }
  for (const char* path : {"../x", "/etc/x", "a//b", ""}) {
    Manifest bad = manifest;
    bad.files[0].path = path;
    EXPECT_FALSE(parse_manifest(format_manifest(bad), 7)) << path;
  }
}

TEST_F(CheckpointFolderTest, OldOnesGoAndNothingOfThemIsLeft) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("always", "the same");
  for (int step = 1; step <= 6; ++step) {
    fs::remove(a_.files() / ("step-" + std::to_string(step - 2)));
    a_.write("step-" + std::to_string(step), "weights " + std::to_string(step));
    EXPECT_EQ(a_.save(), step);
  }
  EXPECT_THAT(objects(kManifestPrefix),
              ElementsAre(manifest_object(4), manifest_object(5), manifest_object(6)));
  // Steps 3 to 6 and the one that never changed.
  EXPECT_THAT(objects(kFilePrefix), SizeIs(5));
}

TEST_F(CheckpointFolderTest, WhatAKilledProcessPutIsSwept) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  ASSERT_TRUE(run_.put(std::string(kFilePrefix) + "waste", "never committed"));
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  ASSERT_TRUE(b_.folder().sweep());
  EXPECT_THAT(objects(kFilePrefix), SizeIs(1));
}

TEST_F(CheckpointFolderTest, AMachineThatHasGoneOnKeepsWhatItHas) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  a_.write("y", "not yet saved");
  a_.start();
  EXPECT_EQ(*a_.folder().restore_newest(), 1);
  EXPECT_THAT(a_.content(), SizeIs(2));
  EXPECT_EQ(a_.save(), 2);
  EXPECT_EQ(*b_.folder().restore_newest(), 2);
  EXPECT_EQ(b_.content(), a_.content());
}

TEST_F(CheckpointFolderTest, AMachineThatWasLeftBehindTakesWhatTheOthersSaved) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  b_.write("x", "2");
  EXPECT_EQ(b_.save(), 2);
  a_.write("mine", "nobody else has it");
  a_.start();
  EXPECT_EQ(*a_.folder().restore_newest(), 2);
  EXPECT_EQ(a_.content(), b_.content());
  // And exactly to one that is told.
  a_.write("mine", "again");
  ASSERT_TRUE(a_.folder().restore(1));
  EXPECT_THAT(a_.content(), ElementsAre(Pair("x", "1")));
  ASSERT_TRUE(a_.folder().restore(0));
  EXPECT_THAT(a_.content(), IsEmpty());
}

TEST_F(CheckpointFolderTest, OfTwoThatSaveOneIsTold) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  EXPECT_EQ(*b_.folder().restore_newest(), 0);
  a_.write("x", "1");
  b_.write("x", "2");
  EXPECT_EQ(a_.save(), 1);
  const auto saved = b_.folder().save(When::now);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::aborted);
  EXPECT_THAT(objects(kManifestPrefix), SizeIs(1));
}

TEST_F(CheckpointFolderTest, WhoTakesOverIsNotOvertakenByTheLastLeader) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  ASSERT_TRUE(b_.folder().fence());
  EXPECT_EQ(b_.folder().number(), 2);
  // It was cut off with a copy under way.
  a_.write("x", "2 of a");
  const auto late = a_.folder().save(When::now);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::aborted);
  b_.write("x", "2 of b");
  EXPECT_EQ(b_.save(), 3);
  ASSERT_TRUE(b_.folder().fence()) << "its own";
  EXPECT_EQ(b_.folder().number(), 3);
  EXPECT_EQ(*a_.folder().restore_newest(), 3);
  EXPECT_EQ(a_.content(), b_.content());
}

TEST_F(CheckpointFolderTest, WhatTheLastLeaderSavedJustBeforeIsTakenOver) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  EXPECT_EQ(*b_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  EXPECT_EQ(b_.folder().fence().error().code, Code::aborted);
  EXPECT_EQ(*b_.folder().restore_newest(), 1);
  ASSERT_TRUE(b_.folder().fence());
  EXPECT_EQ(b_.content(), a_.content());
  b_.write("x", "2");
  EXPECT_EQ(b_.save(), 3);
}

TEST_F(CheckpointFolderTest, FencesTakeNoPlaceOfWhatCanBeGoneBackTo) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  for (const char* text : {"1", "2", "3"}) {
    a_.write("x", text);
    a_.save();
  }
  for (Machine* machine : {&b_, &a_, &b_}) {
    ASSERT_TRUE(machine->folder().restore_newest());
    ASSERT_TRUE(machine->folder().fence());
  }
  EXPECT_THAT(objects(kManifestPrefix),
              ElementsAre(manifest_object(1), manifest_object(2), manifest_object(6)));
  EXPECT_THAT(objects(kFilePrefix), SizeIs(3));
}

TEST_F(CheckpointFolderTest, AFileThatMayBeHalfIsSetAsideForWhatWasKept) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("last.pt", "whole");
  EXPECT_EQ(a_.save(), 1);
  a_.write("renamed.pt.tmp", "whole");
  fs::rename(a_.files() / "renamed.pt.tmp", a_.files() / "renamed.pt");
  std::ofstream still_open(a_.files() / "of_another_rank", std::ios::binary);
  a_.write("deep/new.pt", "h");
  a_.write("in/whole.tmp/x.pt", "who");
  // Times of files are some milliseconds coarse.
  SystemClock().wait_for(Milliseconds(20), {});
  for (const char* name : {"last.pt", "deep/new.pt"}) a_.write(name, "ha");
  a_.write("in/whole.tmp/x.pt", "whole");
  still_open << "more" << std::flush;
  SystemClock().wait_for(Milliseconds(20), {});
  fs::rename(a_.files() / "in/whole.tmp", a_.files() / "in/whole");
  const int64_t now_ms = SystemClock().unix_ms();
  EXPECT_THAT(a_.folder().set_torn_aside(now_ms + 60'000), IsEmpty()) << "they rested long enough";
  EXPECT_THAT(a_.folder().set_torn_aside(now_ms), ElementsAre("deep/new.pt", "last.pt"));
  EXPECT_THAT(a_.folder().set_torn_aside(now_ms), IsEmpty());
  still_open.close();
  EXPECT_THAT(a_.folder().set_torn_aside(now_ms), ElementsAre("of_another_rank"));
  // Whoever saves meanwhile does not take it for removed.
  EXPECT_EQ(a_.save(), 2);
  EXPECT_EQ(*b_.folder().restore_newest(), 2);
  EXPECT_THAT(b_.content(), ElementsAre(Pair("in/whole/x.pt", "whole"), Pair("last.pt", "whole"),
                                        Pair("renamed.pt", "whole")));
  EXPECT_TRUE(*a_.folder().restore_torn());
  EXPECT_EQ(a_.content(), b_.content());
  EXPECT_FALSE(*a_.folder().restore_torn());
  std::ifstream aside(a_.files().parent_path() / "set-aside" / "last.pt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(aside), {}), "ha");
  // From now on a removal is one.
  fs::remove(a_.files() / "last.pt");
  EXPECT_GT(a_.save(), 2);
  EXPECT_TRUE(b_.folder().restore_newest());
  EXPECT_THAT(b_.content(), SizeIs(2));
}

TEST_F(CheckpointFolderTest, AnotherProcessOfTheMachineGoesOnWhereTheLastSaved) {
  EXPECT_EQ(*a_.folder().restore_newest(), 0);
  a_.write("x", "1");
  EXPECT_EQ(a_.save(), 1);
  a_.start();
  ASSERT_TRUE(a_.folder().adopt());
  EXPECT_EQ(a_.save(), 0);
  // Its own record of the folder is lost: nothing is copied again.
  fs::remove(a_.files().parent_path() / "checkpoints.json");
  a_.start();
  ASSERT_TRUE(a_.folder().adopt());
  a_.save();
  EXPECT_THAT(objects(kFilePrefix), SizeIs(1));
}

}  // namespace
}  // namespace tern
