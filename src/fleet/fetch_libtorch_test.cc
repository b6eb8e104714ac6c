#include "fleet/fetch_libtorch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "fleet/test_folder.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// With a `python3` of its own, whose pip is what the test says: the net is not asked.
class FetchLibTorch : public testing::Test {
 protected:
  FetchLibTorch() : path_(getenv("PATH")) {
    fs::create_directory(folder_ / "bin");
    setenv("PATH", ((folder_ / "bin").string() + ":" + path_).c_str(), 1);
    // What it is told goes to `said`; wheels are empty, and each unpacks to a whole LibTorch.
    python(
        "echo \"$@\" >> $HERE/said\n"
        "case \"$*\" in\n"
        "  '-m pip --version') ;;\n"
        "  '-m pip download'*)\n"
        "    while [ \"$1\" != -r ]; do shift; done\n"
        "    cp $2 $HERE/list; mkdir $4; touch $4/a.whl $4/b.whl ;;\n"
        "  '-m pip install'*)\n"
        "    while [ \"$1\" != --target ]; do shift; done\n"
        "    mkdir -p $2/torch/lib; touch $2/torch/lib/libtorch_cpu.so ;;\n"
        "  '-m zipfile -e'*) mkdir -p $5/torch/lib; touch $5/torch/lib/libtorch_cpu.so ;;\n"
        "esac\n");
  }
  ~FetchLibTorch() override { setenv("PATH", path_.c_str(), 1); }

  void python(const std::string& script) {
    folder_.write("bin/python3", "#!/bin/sh\nHERE=" + folder_.path() + "\n" + script);
    fs::permissions(folder_ / "bin/python3", fs::perms::owner_all);
  }
  Status fetch() {
    return fetch_libtorch(
        {.target = folder_ / "cache/libtorch-9", .version = "9", .driver = folder_ / "driver"},
        clock_);
  }
  // Names below the cache.
  std::vector<std::string> cached() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TestFolder folder_;
  const std::string path_;
  SystemClock clock_;
};

TEST_F(FetchLibTorch, ThePinnedWheelsComeWithTheirHashesAndNothingElseIsLeft) {
  // Of a fetch that was killed; no process has this number.
  fs::create_directories(folder_ / "cache/libtorch-9.part.99999999");
  const Status fetched = fetch();
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_TRUE(fs::exists(folder_ / "cache/libtorch-9/torch/lib/libtorch_cpu.so"));
  EXPECT_THAT(cached(), testing::ElementsAre("libtorch-9"));
  EXPECT_THAT(folder_.read("list"),
              AllOf(HasSubstr("torch==2.11.0 --hash=sha256:"), HasSubstr("nvidia-cuda-runtime==")));
  EXPECT_THAT(folder_.read("said"), HasSubstr("--require-hashes"));
  // A second one, and one over what is damaged.
  EXPECT_TRUE(fetch());
  fs::remove(folder_ / "cache/libtorch-9/torch/lib/libtorch_cpu.so");
  EXPECT_TRUE(fetch());
  EXPECT_TRUE(fs::exists(folder_ / "cache/libtorch-9/torch/lib/libtorch_cpu.so"));
  EXPECT_THAT(cached(), testing::ElementsAre("libtorch-9"));
}

TEST_F(FetchLibTorch, AMachineWithAGpuGetsCudasLibrariesToo) {
  folder_.write("driver", "NVRM version");
  ASSERT_TRUE(fetch());
  EXPECT_THAT(folder_.read("said"), HasSubstr("torch==9"));
  EXPECT_TRUE(fs::exists(folder_ / "cache/libtorch-9/torch/lib/libtorch_cpu.so"));
}

TEST_F(FetchLibTorch, AFailureIsToldInPipsWordsAndLeavesNothing) {
  python("case \"$*\" in '-m pip --version') ;; *) echo no route to host >&2; exit 1 ;; esac\n");
  const Status failed = fetch();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_THAT(failed.error().message, AllOf(HasSubstr("could not be fetched: no route to host"),
                                            HasSubstr("pip install torch==9")));
  EXPECT_TRUE(cached().empty());
}

}  // namespace
}  // namespace tern
