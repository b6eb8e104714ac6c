#include "preempt/cloud_watch.h"

#include <gmock/gmock.h>

#include <map>

#include "preempt/file_watcher.h"
#include "preempt/test_watch.h"

namespace tern {
namespace {

using testing::SizeIs;

class CloudWatchTest : public WatchTest {
 protected:
  // Every cloud's service is at the same server.
  CloudWatch::Setup start(const TestWebServer& server, const std::string& option,
                          const std::string& firmware) {
    const std::string url = server.url("");
    const std::map<std::string, std::string> variables = {
        {"AWS_EC2_METADATA_SERVICE_ENDPOINT", url},
        {"GCE_METADATA_HOST", url.substr(7)},
        {"TERN_AZURE_METADATA_ENDPOINT", url}};
    CloudWatch::Setup setup{.board = &board_, .clock = &clock_, .log = &log_};
    setup.options.cloud = option;
    setup.machine.cloud = firmware;
    setup.variable = [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return setup;
  }

  static std::string prefix_of(const std::string& cloud) {
    if (cloud == "aws") return "/latest/";
    return cloud == "gcp" ? "/computeMetadata/" : "/metadata/";
  }
};

TEST_F(CloudWatchTest, OnAMachineOfNoCloudNothingIsSent) {
  TestWebServer server([](const Request&) { return status(404); });
  for (const auto& [option, firmware] :
       std::map<std::string, std::string>{{"auto", ""}, {"none", "aws"}}) {
    CloudWatch watch(start(server, option, firmware));
    EXPECT_EQ(watch.cloud(), "");
    EXPECT_EQ(watch.instance_type(), "");
    watch.machine_may_go();
  }
  EXPECT_EQ(server.connections(), 0);
  EXPECT_EQ(logged(), "");
}

TEST_F(CloudWatchTest, OnlyTheServiceOfTheMachinesCloudIsAsked) {
  for (const char* cloud : {"aws", "gcp", "azure"}) {
    for (const bool by_firmware : {true, false}) {
      TestWebServer server([](const Request&) { return status(503); });
      {
        const CloudWatch watch(by_firmware ? start(server, "auto", cloud)
                                           : start(server, cloud, "gcp"));
        EXPECT_EQ(watch.cloud(), cloud);
        ASSERT_TRUE(eventually([&] { return server.requests().size() > 5; }));
      }
      for (const Request& request : server.requests()) {
        EXPECT_TRUE(request.target.starts_with(prefix_of(cloud))) << request.target;
      }
    }
  }
  EXPECT_THAT(board_.all(), SizeIs(0));
}

TEST_F(CloudWatchTest, AServiceThatIsSwitchedOffIsNotAsked) {
  TestWebServer server([](const Request&) { return status(503); });
  CloudWatch::Setup setup = start(server, "auto", "aws");
  setup.variable = [inner = setup.variable](const std::string& name) {
    return name == "AWS_EC2_METADATA_DISABLED" ? std::optional<std::string>("true") : inner(name);
  };
  CloudWatch(setup).machine_may_go();
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(CloudWatchTest, TheServiceTellsTheInstanceTypeThatTheFirmwareDoesNot) {
  TestWebServer gcp([](const Request& request) -> Reply {
    if (!request.target.ends_with("/machine-type")) return status(404);
    return good("projects/123/machineTypes/n1-standard-4", {"Metadata-Flavor: Google", "ETag: 1"});
  });
  EXPECT_EQ(CloudWatch(start(gcp, "auto", "gcp")).instance_type(), "n1-standard-4");
  TestWebServer azure(
      [](const Request&) { return good(R"({"name": "a", "vmSize": "Standard_NC6s_v3"})"); });
  EXPECT_EQ(CloudWatch(start(azure, "auto", "azure")).instance_type(), "Standard_NC6s_v3");

  CloudWatch::Setup known = start(azure, "auto", "azure");
  known.machine.instance_type = "as the firmware says";
  EXPECT_EQ(CloudWatch(known).instance_type(), "as the firmware says");
}

TEST_F(CloudWatchTest, AServiceThatTellsNoInstanceTypeIsNotWaitedForLong) {
  for (const char* cloud : {"gcp", "azure"}) {
    TestWebServer silent([](const Request&) -> Reply { return {.then = Then::stall}; });
    CloudWatch watch(start(silent, "auto", cloud));
    EXPECT_EQ(watch.instance_type(), "");  // the watcher itself would wait for minutes
  }
  TestWebServer odd([](const Request&) {
    return good(std::string(10'000, 'x'), {"Metadata-Flavor: Google", "ETag: 1"});
  });
  EXPECT_EQ(CloudWatch(start(odd, "auto", "gcp")).instance_type(), "");
}

TEST_F(CloudWatchTest, AllSourcesTogetherAreOneNoticeWithTheEarliestDeadline) {
  TestWebServer server([](const Request& request) -> Reply {
    if (request.target.find("/instance/compute") != std::string::npos) {
      return good(R"({"name": "a", "vmSize": "b"})");
    }
    return good(R"({"Events": [{"EventId": "1", "EventType": "Preempt", "Resources": ["a"],
                                "NotBefore": "Sun, 01 Mar 2026 12:34:56 GMT"}]})");
  });
  const std::filesystem::path folder = testing::TempDir() + "all_sources";
  std::filesystem::create_directories(folder);
  const FileWatcher file(board_, clock_, folder);  // it is there
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  const CloudWatch watch(start(server, "azure", ""));
  ASSERT_TRUE(eventually([&] { return board_.all().size() == 2; }));
  EXPECT_EQ(board_.notice()->source, "file " + folder.string());
  EXPECT_EQ(board_.notice()->deadline_unix_ms, 1'772'368'496'000);
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace tern
