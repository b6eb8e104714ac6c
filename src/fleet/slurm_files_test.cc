#include "fleet/slurm_files.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fleet/slurm_peers.h"
#include "fleet/test_folder.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr char kId[] = "0123456789abcdef0123456789abcdef";

SlurmRequest a_request() {
  SlurmRequest request{.machines = 2, .setup = {"true"}, .tern = "/bin/tern"};
  request.command.id = kId;
  request.command.command = {"--run", "x"};
  request.command.run_file = "mine.toml";
  request.command.run_file_text = "recipe = \"x\"\n";
  request.command.environment = {{"TERN_RUN", "x"}};
  request.command.secret = "never in the request";
  return request;
}

TEST(SlurmFolder, HoldsWhatTheJobNeedsForItsUserAlone) {
  const TestFolder state;
  const SlurmFolder folder = SlurmFolder::of_run(state.path(), kId);
  ASSERT_TRUE(folder.lay_out(a_request(), "the secret"));
  for (const auto& entry : fs::recursive_directory_iterator(state.path())) {
    struct stat found{};
    ASSERT_EQ(stat(entry.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0077, 0U) << entry.path();
  }
  const std::string below = std::string("slurm/") + kId + "/";
  EXPECT_EQ(state.read(below + "secret"), "the secret");
  EXPECT_EQ(state.read(below + kId + "-1/mine.toml"), "recipe = \"x\"\n");
  EXPECT_THAT(state.read(below + "request.json"), Not(HasSubstr("never in")));
  EXPECT_THAT(state.read(below + "job.sh"), HasSubstr("agent slurm-job"));
  EXPECT_TRUE(fs::exists(folder.log(1)));

  const Result<SlurmRequest> read = folder.read_request();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->machines, 2);
  EXPECT_EQ(read->setup, a_request().setup);
  EXPECT_EQ(read->tern, "/bin/tern");
  EXPECT_EQ(read->command.command, a_request().command.command);
  EXPECT_EQ(read->command.environment, a_request().command.environment);
  folder.remove();
  EXPECT_TRUE(fs::is_empty(state.path()));
}

TEST(SlurmFolder, DamageIsTold) {
  const TestFolder state;
  const SlurmFolder folder = SlurmFolder::of_run(state.path(), kId);
  EXPECT_EQ(folder.read_request().error().code, Code::not_found);
  for (const char* text : {"", "[]", "{\"machines\": 1}"}) {
    state.write(std::string("slurm/") + kId + "/request.json", text);
    EXPECT_EQ(folder.read_request().error().code, Code::corrupt) << text;
  }
}

TEST(SlurmPeers, APortThatSomebodyHasIsNotFree) {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  ASSERT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string taken = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_FALSE(is_free_to_listen(taken));
  // Loopback has many addresses.
  EXPECT_TRUE(is_free_to_listen("127.0.0.9:" + std::to_string(ntohs(address.sin_port))));
  for (const char* wrong : {"", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "name:20000"}) {
    EXPECT_FALSE(is_free_to_listen(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tern
