// On this machine's shell, which runs the same scripts that are sent to others.
#include "fleet/place_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>

#include "fleet/on_all.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PlaceBundle : public testing::Test {
 protected:
  PlaceBundle() {
    setenv("XDG_CACHE_HOME", (folder_ / "there").c_str(), 1);
    folder_.write("build/tern", "#!/bin/sh\necho tern 1.2\n");
    fs::permissions(folder_ / "build/tern", fs::perms::owner_all);
    folder_.write("build/libexec/tern-train", "trainer");
    folder_.write("recipes/a.toml", "recipe = 'a'\n");
    folder_.write("recipes/notes.txt", "");
  }

  std::vector<BundleFile> files() {
    return *bundle_files(folder_ / "build/tern", folder_ / "recipes");
  }
  Bundle pack() { return *pack_bundle(files(), folder_ / "here", clock_, {}); }
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "there/tern/bundles")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TestFolder folder_;
  SystemClock clock_;
  const MachineShell shell_{{.name = "here"}, {}, clock_};
};

TEST_F(PlaceBundle, OfABuildFolderHoldsProgramsAndRecipes) {
  std::vector<std::string> names;
  const std::vector<BundleFile> all = files();
  for (const BundleFile& file : all) names.push_back(file.name);
  EXPECT_THAT(names, ElementsAre("bin/tern", "libexec/tern-train", "share/tern/recipes/a.toml"));
}

TEST_F(PlaceBundle, OfABundleHoldsAllOfIt) {
  for (const char* name : {"b/BUNDLE.txt", "b/bin/tern", "b/lib/libx.so", "b/libexec/tern-train",
                           "b/share/tern/recipes/r.toml", "b/libtorch/lib/huge.so"}) {
    folder_.write(name, name);
  }
  std::vector<std::string> names;
  const auto all = bundle_files(folder_ / "b/bin/tern", folder_ / "recipes");
  for (const BundleFile& file : *all) names.push_back(file.name);
  EXPECT_THAT(names, ElementsAre("BUNDLE.txt", "bin/tern", "lib/libx.so", "libexec/tern-train",
                                 "share/tern/recipes/r.toml"));
}

TEST_F(PlaceBundle, IsSentOnceAndRuns) {
  const Bundle bundle = pack();
  const auto first = place_bundle(shell_, bundle, {});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->sent);
  EXPECT_EQ(first->folder, folder_ / ("there/tern/bundles/" + bundle.hash));
  EXPECT_TRUE(check_tern(shell_, first->tern(), "1.2", {}));
  EXPECT_EQ(folder_.read("there/tern/bundles/" + bundle.hash + "/libexec/tern-train"), "trainer");
  const auto second = place_bundle(shell_, pack(), {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->sent);
  EXPECT_THAT(there(), ElementsAre(bundle.hash));
}

TEST_F(PlaceBundle, OfOtherContentIsAnother) {
  const Bundle before = pack();
  folder_.write("build/libexec/tern-train", "another");
  EXPECT_NE(pack().hash, before.hash);
}

TEST_F(PlaceBundle, ThatWasDamagedIsSentAgain) {
  const Bundle bundle = pack();
  ASSERT_TRUE(place_bundle(shell_, bundle, {}));
  folder_.write("there/tern/bundles/" + bundle.hash + "/libexec/tern-train", "trainee");
  const auto again = place_bundle(shell_, bundle, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->sent);
  EXPECT_EQ(folder_.read("there/tern/bundles/" + bundle.hash + "/libexec/tern-train"), "trainer");
  EXPECT_THAT(there(), ElementsAre(bundle.hash));
}

TEST_F(PlaceBundle, ThatArrivesInPartIsNoBundle) {
  Bundle bundle = pack();
  const fs::path whole = bundle.archive;
  bundle.archive = folder_ / "half";
  fs::copy_file(whole, bundle.archive);
  fs::resize_file(bundle.archive, fs::file_size(whole) / 2);
  const auto half = place_bundle(shell_, bundle, {});
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, HasSubstr("machine here: send the bundle: "));
  EXPECT_TRUE(there().empty());
  bundle.archive = whole;
  EXPECT_TRUE(place_bundle(shell_, bundle, {})->sent);
}

TEST_F(PlaceBundle, LeftoversOfKilledLaunchesGoAfterAnHour) {
  const Bundle bundle = pack();
  folder_.write("there/tern/bundles/old.part.1/x", "");
  folder_.write("there/tern/bundles/new.part.2/x", "");
  fs::last_write_time(folder_ / "there/tern/bundles/old.part.1",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(place_bundle(shell_, bundle, {}));
  EXPECT_THAT(there(), testing::UnorderedElementsAre(bundle.hash, "new.part.2"));
}

TEST_F(PlaceBundle, TwoLaunchesAtOnceAreFine) {
  const Bundle bundle = pack();
  const auto placed = on_all(4, [&](size_t) { return place_bundle(shell_, bundle, {}); });
  const Status all = all_good(placed);
  EXPECT_TRUE(all) << all.error().message;
  EXPECT_THAT(there(), ElementsAre(bundle.hash));
}

TEST_F(PlaceBundle, AFullDiskAndAMissingTarAreNamed) {
  const Bundle bundle = pack();
  folder_.write("bin/tar", "#!/bin/sh\necho 'tar: No space left on device' >&2; exit 2\n");
  fs::permissions(folder_ / "bin/tar", fs::perms::owner_all);
  const std::string path = getenv("PATH");
  setenv("PATH", ((folder_ / "bin").string() + ":" + path).c_str(), 1);
  EXPECT_EQ(place_bundle(shell_, bundle, {}).error().code, Code::exhausted);
  folder_.write("bin/tar", "#!/bin/sh\necho 'sh: tar: not found' >&2; exit 127\n");
  EXPECT_EQ(place_bundle(shell_, bundle, {}).error().code, Code::not_found);
  setenv("PATH", path.c_str(), 1);
}

TEST_F(PlaceBundle, ATernThatDoesNotStartSaysWhatItNeeds) {
  folder_.write("bad",
                "#!/bin/sh\necho 'libcurl.so.4: cannot open shared object file' >&2; exit 1");
  fs::permissions(folder_ / "bad", fs::perms::owner_all);
  const Status checked = check_tern(shell_, (folder_ / "bad").string(), "1.2", {});
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("machine here: tern does not start there (libcurl.so.4"),
                    HasSubstr("make dist")));
  EXPECT_FALSE(check_tern(shell_, (folder_ / "build/tern").string(), "1.3", {}));
}

TEST(Doctor, StopsALaunchWithItsReasonAndWhatToDo) {
  const FleetMachine machine{.name = "a"};
  EXPECT_TRUE(judge_doctor(machine, {.exit_code = 0}));
  const Status refused = judge_doctor(machine, {.exit_code = 3, .out = R"({"advice": [
        {"what": "LibTorch was not found", "to_do": "pip install torch", "stops": true},
        {"what": "slow disk", "to_do": "another", "stops": false}, 7, {"stops": "x"}]})"});
  EXPECT_EQ(refused.error().message,
            "machine a: it cannot train: LibTorch was not found. To do: pip install torch");
  EXPECT_THAT(judge_doctor(machine, {.exit_code = 1, .out = "{", .err = "odd\n"}).error().message,
              HasSubstr("`tern doctor` ended with 1: odd"));
}

}  // namespace
}  // namespace tern
