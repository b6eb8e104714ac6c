#include "fleet/machine_shell.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/system_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// A socket's path has at most 107 bytes; ssh adds '/', 40 digits of %C and 18 bytes while it binds.
constexpr size_t kControlFolderBytesMax = 48;

bool is_private_folder(const fs::path& folder) {
  struct stat found{};
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == geteuid() && (found.st_mode & 077) == 0;
}

// The last line that says something, which is where programs put the cause.
std::string last_line(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = text.find_last_of('\n', text.size() - 1);
    const size_t from = begin == std::string_view::npos ? 0 : begin + 1;
    std::string line = printable_line(text.substr(from));
    if (!line.empty()) return line.substr(0, 300);
    text = text.substr(0, begin == std::string_view::npos ? 0 : begin);
  }
  return "";
}

std::string login_of(const FleetMachine& machine) {
  std::string words = "ssh ";
  if (machine.port != 0) words += fmt::format("-p {} ", machine.port);
  return words + (machine.user.empty() ? "" : machine.user + "@") + machine.address;
}

Error named(const FleetMachine& machine, Code code, const std::string& what) {
  return fail(code, fmt::format("machine {}: {}", machine.name, what));
}

}  // namespace

fs::path make_control_folder(const fs::path& runtime) {
  const std::vector<fs::path> choices = {runtime.empty() ? fs::path() : runtime / "tern-ssh",
                                         fmt::format("/tmp/tern-ssh-{}", geteuid())};
  for (const fs::path& folder : choices) {
    if (folder.empty() || folder.string().size() > kControlFolderBytesMax) continue;
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) continue;
    // Somebody else may have made it first, to listen in.
    if (is_private_folder(folder)) return folder;
  }
  return {};
}

std::string quote_shell(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

MachineShell::MachineShell(FleetMachine machine, SshSetup ssh, Clock& clock)
    : machine_(std::move(machine)), ssh_(std::move(ssh)), clock_(clock) {}

// Of two values for an option ssh takes the first: what must hold comes first, then what the hosts
// file says, then the user's config. Host keys are checked as that config says; nothing here ever
// weakens it.
std::vector<std::string> MachineShell::ssh_words(For whom) const {
  std::vector<std::string> words = {ssh_.program};
  if (!ssh_.config.empty()) words.insert(words.end(), {"-F", ssh_.config.string()});
  const auto option = [&words](std::string text) {
    words.emplace_back("-o");
    words.push_back(std::move(text));
  };
  if (whom == For::program) {
    option("BatchMode=yes");  // nobody is there to answer a question
    option("LogLevel=INFO");  // less does not tell of a connection that was lost
  }
  option(fmt::format("ConnectTimeout={}", ssh_.connect_timeout_s));
  // A connection that died is noticed after 15 s.
  option("ServerAliveInterval=5");
  option("ServerAliveCountMax=3");
  option("ClearAllForwardings=yes");
  option("RemoteCommand=none");
  if (ssh_.control_folder.empty()) {
    option("ControlPath=none");
  } else {
    option("ControlMaster=auto");
    option(fmt::format("ControlPath={}/%C", ssh_.control_folder.string()));
    option("ControlPersist=30");
  }
  for (const std::string& text : machine_.ssh_options) option(text);
  if (machine_.port != 0) words.insert(words.end(), {"-p", std::to_string(machine_.port)});
  if (!machine_.user.empty()) words.insert(words.end(), {"-l", machine_.user});
  return words;
}

Result<ChildAnswer> MachineShell::run(const ShellCommand& command, std::stop_token stop) const {
  ChildSetup setup{.input = command.input,
                   .input_file = command.input_file,
                   .output_bytes_max = command.output_bytes_max,
                   .limit = command.limit};
  if (machine_.is_local()) {
    setup.command = {"/bin/sh", "-c", command.script};
  } else {
    setup.command = ssh_words(For::program);
    // Whatever shell the user has there, the script is for this one.
    const std::string script = fmt::format("exec /bin/sh -c {}", quote_shell(command.script));
    setup.command.insert(setup.command.end(), {"-T", "--", machine_.address, script});
  }
  Result<ChildAnswer> answer = run_child(setup, clock_, std::move(stop));
  if (!answer && answer.error().code == Code::not_found) {
    return named(machine_, Code::not_found,
                 machine_.is_local() ? "there is no /bin/sh here"
                                     : "there is no ssh here; install the package openssh-client");
  }
  if (!answer && answer.error().code == Code::deadline_exceeded) {
    return named(machine_, Code::deadline_exceeded,
                 fmt::format("{}; log in with `{}` and look what it waits for",
                             answer.error().message, login_of(machine_)));
  }
  if (!answer) return answer.error().at("machine " + machine_.name);
  if (!machine_.is_local() && answer->exit_code == 255) {
    return explain_ssh_failure(machine_, answer->err);
  }
  return answer;
}

Result<Bytes> MachineShell::must_run(const ShellCommand& command, const std::string& doing,
                                     std::stop_token stop) const {
  ASSIGN_OR_RETURN(ChildAnswer answer, run(command, std::move(stop)));
  if (answer.exit_code != 0) return explain_exit(machine_, doing, answer);
  if (answer.is_cut) {
    return named(machine_, Code::corrupt,
                 fmt::format("{}: it said more than {} bytes", doing, command.output_bytes_max));
  }
  return std::move(answer.out);
}

std::vector<std::string> MachineShell::interactive_command(const std::string& script) const {
  if (machine_.is_local()) {
    if (script.empty()) return {"/bin/sh", "-i"};
    return {"/bin/sh", "-c", script};
  }
  std::vector<std::string> words = ssh_words(For::person);
  if (script.empty()) {
    words.insert(words.end(), {"-t", "--", machine_.address});
  } else {
    words.insert(words.end(), {"--", machine_.address, script});
  }
  return words;
}

void MachineShell::close_connection() const {
  if (machine_.is_local() || ssh_.control_folder.empty()) return;
  ChildSetup setup{.command = ssh_words(For::program), .limit = Milliseconds(5000)};
  setup.command.insert(setup.command.end(), {"-q", "-O", "exit", "--", machine_.address});
  (void)run_child(setup, clock_, {});
}

Error explain_ssh_failure(const FleetMachine& machine, std::string_view said) {
  const auto says = [said](std::string_view words) { return said.find(words) != said.npos; };
  const std::string login = login_of(machine);
  if (says("REMOTE HOST IDENTIFICATION HAS CHANGED")) {
    return named(machine, Code::failed_precondition,
                 fmt::format("its host key is not the one that is known here: another machine "
                             "answers at {}. If it was made anew, `ssh-keygen -R {}` forgets the "
                             "old key",
                             machine.address, machine.address));
  }
  if (says("Host key verification failed")) {
    return named(machine, Code::failed_precondition,
                 fmt::format("its host key is not known here; log in once with `{}` and compare "
                             "the fingerprint, or add the key to ~/.ssh/known_hosts",
                             login));
  }
  if (says("Permission denied") || says("Too many authentication failures")) {
    return named(machine, Code::permission_denied,
                 fmt::format("it does not let us in; `{}` must work without a password: load the "
                             "key (ssh-add), name it (IdentityFile) or set the user",
                             login));
  }
  if (says("Could not resolve hostname")) {
    return named(machine, Code::not_found,
                 fmt::format("nobody knows the name {}; correct the address, or add a Host to "
                             "~/.ssh/config",
                             machine.address));
  }
  for (const std::string_view words : {"Connection refused", "timed out", "No route to host",
                                       "Network is unreachable", "Host is down"}) {
    if (!says(words)) continue;
    return named(machine, Code::unavailable,
                 fmt::format("it cannot be reached ({}); is it running, with sshd, and does a "
                             "firewall let ssh through? Try `{}`",
                             words, login));
  }
  const std::string cause = last_line(said);
  for (const std::string_view words :
       {"Connection closed", "Connection reset", "Broken pipe", "not responding",
        "closed by remote host", "Shared connection to"}) {
    if (!says(words) && !cause.empty()) continue;
    return named(machine, Code::unavailable,
                 fmt::format("the connection was lost{}; is the machine still there? Try `{}`",
                             cause.empty() ? "" : " (" + cause + ")", login));
  }
  return named(machine, Code::unavailable, fmt::format("ssh failed ({}); try `{}`", cause, login));
}

Error explain_exit(const FleetMachine& machine, const std::string& doing,
                   const ChildAnswer& answer) {
  const std::string cause = last_line(answer.err);
  if (answer.err.find("No space left on device") != Bytes::npos ||
      answer.err.find("Disk quota exceeded") != Bytes::npos) {
    return named(machine, Code::exhausted,
                 fmt::format("{}: its disk is full ({}); free some space there and try again",
                             doing, cause));
  }
  if (answer.exit_code == 127) {
    return named(
        machine, Code::not_found,
        fmt::format("{}: a command is missing there ({}); install it and try again", doing, cause));
  }
  if (answer.exit_code < 0) {
    return named(machine, Code::unavailable,
                 fmt::format("{}: it was ended by signal {}; try again", doing, -answer.exit_code));
  }
  return named(machine, Code::unavailable,
               fmt::format("{}: exit code {}{}", doing, answer.exit_code,
                           cause.empty() ? "" : " (" + cause + ")"));
}

Result<std::string> ask_ssh_for(const std::string& name, const SshSetup& ssh, Clock& clock) {
  ChildSetup setup{.command = {ssh.program}, .limit = Milliseconds(10'000)};
  if (!ssh.config.empty()) setup.command.insert(setup.command.end(), {"-F", ssh.config.string()});
  setup.command.insert(setup.command.end(), {"-G", "--", name});
  const Result<ChildAnswer> answer = run_child(setup, clock, {});
  if (!answer && answer.error().code == Code::not_found) {
    return fail(Code::not_found, "there is no ssh here; install the package openssh-client");
  }
  if (!answer) return answer.error().at("ssh -G " + name);
  if (answer->exit_code == 0) return answer->out;
  return fail(Code::invalid, fmt::format("ssh does not understand its config: {}; mend that and "
                                         "try again",
                                         last_line(answer->err)));
}

}  // namespace tern
