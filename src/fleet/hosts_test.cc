#include "fleet/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fleet/ssh_config.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Machines = Result<std::vector<FleetMachine>>;

std::string problem_with(const Machines& machines) {
  if (machines) {
    ADD_FAILURE() << "this should be refused";
    return "";
  }
  EXPECT_EQ(machines.error().code, Code::invalid) << machines.error().message;
  return machines.error().message;
}

TEST(HostsToml, ListsMachinesWithWhatIsSaidForAllOfThem) {
  const Machines machines = parse_hosts_toml(R"(
user = "ubuntu"
ssh_options = ["IdentityFile=~/.ssh/spot"]
ranks = 2
[[machine]]
address = "10.0.0.4"
[[machine]]
name = "big"
address = "gpu.example.com"
user = "root"
port = 2222
ssh_options = ["Compression=yes"]
ranks = 8
spare = true
interface = "192.168.1.7"
)",
                                             "hosts.toml");
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(
      *machines,
      ElementsAre(FleetMachine{.name = "10.0.0.4",
                               .address = "10.0.0.4",
                               .user = "ubuntu",
                               .ssh_options = {"IdentityFile=~/.ssh/spot"},
                               .ranks = 2},
                  FleetMachine{.name = "big",
                               .address = "gpu.example.com",
                               .user = "root",
                               .port = 2222,
                               .ssh_options = {"Compression=yes", "IdentityFile=~/.ssh/spot"},
                               .ranks = 8,
                               .spare = true,
                               .interface = "192.168.1.7"}));
}

TEST(HostsToml, TellsEveryProblemByLine) {
  const std::string told = problem_with(parse_hosts_toml(
      "[[machine]]\naddress = 7\nprot = 22\n[[machine]]\nport = 70000\n", "hosts.toml"));
  EXPECT_THAT(told, HasSubstr("hosts.toml:2:"));
  EXPECT_THAT(told, HasSubstr("hosts.toml:3:1: unknown key 'machine.0.prot'"));
  EXPECT_THAT(told, HasSubstr("hosts.toml:5:8: machine.1.port = 70000 is out of range"));
  EXPECT_THAT(told, HasSubstr("docs/launch.md"));
  EXPECT_THAT(problem_with(parse_hosts_toml("[[machine]\n", "h")), HasSubstr("h:1:"));
  EXPECT_THAT(
      problem_with(parse_hosts_toml("[[machine]]\naddress='a'\n\n[[machine]]\nname='b'\n", "h")),
      HasSubstr("h:4:1: this machine has no address"));
  EXPECT_THAT(problem_with(parse_hosts_toml("user = 'a'\n", "h")), HasSubstr("h lists no machine"));
}

TEST(HostsToml, RefusesAMachineThatIsListedTwice) {
  EXPECT_THAT(problem_with(parse_hosts_toml("[[machine]]\naddress='a'\n[[machine]]\nname='b'\n"
                                            "address='A'\n",
                                            "h")),
              HasSubstr("h: a and b are one machine"));
  EXPECT_THAT(problem_with(parse_hosts_toml("[[machine]]\nname='n'\naddress='a'\n[[machine]]\n"
                                            "name='n'\naddress='b'\n",
                                            "h")),
              HasSubstr("two machines are called n"));
}

TEST(HostsToml, RefusesWhatSshWouldTakeForSomethingElse) {
  const auto told = [](const std::string& line) {
    return problem_with(parse_hosts_toml("[[machine]]\naddress='a'\n" + line, "h"));
  };
  EXPECT_THAT(problem_with(parse_hosts_toml("[[machine]]\naddress='-oProxyCommand=x'\n", "h")),
              HasSubstr("h:1:1: '-oProxyCommand=x' is no name for a machine"));
  EXPECT_THAT(told("name='b'\nuser='-x'"), HasSubstr("'-x' is no user's name"));
  EXPECT_THAT(told("ssh_options=['Compression']"), HasSubstr("not of the form Key=Value"));
  EXPECT_THAT(told("ssh_options=[\"A=b\\nC=d\"]"), HasSubstr("control character"));
  EXPECT_THAT(told("ssh_options=['stricthostkeychecking no']"),
              HasSubstr("host keys are always checked"));
  EXPECT_THAT(told("ssh_options=['StrictHostKeyChecking=off']"), HasSubstr("ssh-keyscan"));
}

constexpr char kReservations[] = R"({"Reservations": [
  {"Instances": [
    {"InstanceId": "i-1", "PublicDnsName": "ec2-1.example.com", "PrivateIpAddress": "172.31.0.1",
     "State": {"Name": "running"}, "Tags": [{"Key": "Name", "Value": "worker"}]},
    {"InstanceId": "i-2", "PublicDnsName": "", "PublicIpAddress": "3.4.5.6",
     "PrivateIpAddress": "172.31.0.2", "Tags": [{"Key": "Name", "Value": "worker"}]}]},
  {"Instances": [
    {"InstanceId": "i-3", "State": {"Name": "terminated"}},
    {"InstanceId": "i-4", "PrivateIpAddress": "172.31.0.4",
     "Tags": [{"Key": "Name", "Value": "has a blank"}]}]}]})";

TEST(InstancesJson, ListsTheMachinesThatRun) {
  const Machines machines = parse_instances_json(kReservations, "instances.json");
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(
      *machines,
      ElementsAre(
          FleetMachine{
              .name = "worker-0", .address = "ec2-1.example.com", .interface = "172.31.0.1"},
          FleetMachine{.name = "worker-1", .address = "3.4.5.6", .interface = "172.31.0.2"},
          FleetMachine{.name = "i-4", .address = "172.31.0.4", .interface = "172.31.0.4"}));
}

TEST(InstancesJson, TakesTheListsThatAQueryLeaves) {
  constexpr char kOne[] = R"({"InstanceId": "i-1", "PublicIpAddress": "3.4.5.6"})";
  for (const std::string& text : {R"({"Groups": [], "Instances": [)" + std::string(kOne) + "]}",
                                  "[" + std::string(kOne) + "]", "[[" + std::string(kOne) + "]]"}) {
    const Machines machines = parse_instances_json(text, "i");
    ASSERT_TRUE(machines) << machines.error().message;
    EXPECT_THAT(*machines, SizeIs(1));
  }
}

TEST(InstancesJson, NamesWhatIsWrong) {
  EXPECT_THAT(problem_with(parse_instances_json("{\n\"Reservations\": [}", "i.json")),
              HasSubstr("i.json: not valid JSON at line 2, column 18"));
  EXPECT_THAT(problem_with(parse_instances_json("[1e999]", "i")), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem_with(parse_instances_json(R"({"a": 1})", "i")), HasSubstr("is no list of"));
  EXPECT_THAT(problem_with(parse_instances_json(R"({"Instances": [{"InstanceId": "i-1"}]})", "i")),
              HasSubstr("Instances[0] has neither PublicDnsName"));
  EXPECT_THAT(problem_with(parse_instances_json(
                  R"([{"InstanceId": "i-1", "State": {"Name": "stopped"}}])", "i")),
              HasSubstr("none of the 1 machines of i runs"));
  EXPECT_THAT(problem_with(parse_instances_json(
                  R"([{"InstanceId": "i-1", "PublicIpAddress": "-oX"}])", "i")),
              HasSubstr("[0]: '-oX' is no address"));
  EXPECT_THAT(problem_with(parse_instances_json(std::string(20, '[') + std::string(20, ']'), "i")),
              HasSubstr("nested too deep"));
}

TEST(SshConfig, ListsNamesOfHostLinesAndIncludedFiles) {
  const TestFolder home;
  home.write(".ssh/config",
             "Include conf.d/*.conf ~/more\nHost gpu-1 gpu-* !gpu-9 \"gpu-2\"  # comment\n"
             "  HostName 10.0.0.1\nhost=cpu\nMatch host x\n");
  home.write(".ssh/conf.d/a.conf", "Host gpu-3\n");
  home.write(".ssh/conf.d/b.txt", "Host not-me\n");
  home.write("more", "HOST\tgpu-1 old\n");
  const auto names = ssh_host_names(home / ".ssh/config", home.path());
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ElementsAre("gpu-1", "gpu-2", "cpu", "gpu-3", "old"));
  EXPECT_THAT(*ssh_host_names(home / "nothing", home.path()), IsEmpty());
}

TEST(SshConfig, RefusesWhatHasNoEnd) {
  const TestFolder home;
  home.write(".ssh/config", "Host a\nHost \"b\n");
  EXPECT_THAT(ssh_host_names(home / ".ssh/config", home.path()).error().message,
              HasSubstr("config:2: a quote is opened"));
  home.write(".ssh/config", "Include config\n");
  EXPECT_THAT(ssh_host_names(home / ".ssh/config", home.path()).error().message,
              HasSubstr("leads to itself"));
}

TEST(SshConfig, PatternsMatchAsSshs) {
  EXPECT_TRUE(matches_host_pattern("gpu-1", "gpu-*"));
  EXPECT_TRUE(matches_host_pattern("gpu-", "gpu-*"));
  EXPECT_TRUE(matches_host_pattern("gpu-12", "*-?2"));
  EXPECT_TRUE(matches_host_pattern("aab", "*ab"));
  EXPECT_FALSE(matches_host_pattern("gpu", "gpu-*"));
  EXPECT_FALSE(matches_host_pattern("gpu-1", "gpu-?1"));
  EXPECT_FALSE(matches_host_pattern("", "?"));
}

class HostNames : public testing::Test {
 protected:
  HostNames() {
    home_.write(".ssh/config", "Host gpu-1\nHost gpu-2\nHost cpu\n");
    place_ = {.ssh_config = home_ / ".ssh/config",
              .home = home_.path(),
              .ask_ssh = [this](const std::string& name) -> Result<std::string> {
                const std::string address = same_.contains(name) ? "10.0.0.9" : name;
                return "user me\nhostname " + address + "\nport 22\n";
              }};
  }

  TestFolder home_;
  std::set<std::string> same_;
  HostsPlace place_;
};

TEST_F(HostNames, ArePatternsAndNames) {
  const Machines machines = read_hosts("gpu-*,you@10.0.0.7", place_);
  ASSERT_TRUE(machines) << machines.error().message;
  EXPECT_THAT(*machines,
              ElementsAre(FleetMachine{.name = "gpu-1", .address = "gpu-1"},
                          FleetMachine{.name = "gpu-2", .address = "gpu-2"},
                          FleetMachine{.name = "10.0.0.7", .address = "10.0.0.7", .user = "you"}));
}

TEST_F(HostNames, ThatAreOneMachineAreRefused) {
  same_ = {"gpu-1", "cpu"};
  EXPECT_THAT(problem_with(read_hosts("gpu-1,cpu", place_)),
              HasSubstr("gpu-1 and cpu are one machine (10.0.0.9)"));
  EXPECT_THAT(problem_with(read_hosts("cpu,c*", place_)), HasSubstr("cpu and cpu are one machine"));
}

TEST_F(HostNames, ThatAreNotThereAreNamed) {
  const Machines machines = read_hosts("tpu-*", place_);
  EXPECT_EQ(machines.error().code, Code::not_found);
  EXPECT_THAT(machines.error().message, HasSubstr("matches tpu-* (3 names were looked at)"));
  EXPECT_EQ(read_hosts("nothing.toml", place_).error().code, Code::not_found);
  EXPECT_EQ(read_hosts(home_.path(), place_).error().code, Code::invalid);
  EXPECT_THAT(problem_with(read_hosts("-x", place_)), HasSubstr("'-x' is no name"));
  EXPECT_THAT(problem_with(read_hosts(",", place_)), testing::Not(IsEmpty()));
}

TEST_F(HostNames, AFileIsReadByItsKind) {
  EXPECT_THAT(*read_hosts(home_.write("h.toml", "[[machine]]\naddress='a'\n"), place_), SizeIs(1));
  EXPECT_THAT(*read_hosts(home_.write("instances.json", kReservations), place_), SizeIs(3));
}

}  // namespace
}  // namespace tern
