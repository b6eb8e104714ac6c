#include "fleet/slurm_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/system_files.h"
#include "fleet/machine_shell.h"

namespace tern {
namespace {

// Seconds before the end of its time at which the job is told. Slurm may be up to a minute early.
constexpr int kWarnSeconds = 60;
constexpr int kFirstPort = 20'000;
constexpr int kPorts = 10'000;

// What `tern` says itself, or what would make another kind of job of it.
constexpr std::array<std::string_view, 17> kOurs = {
    "--nodes",     "--ntasks", "--ntasks-per-node", "--output", "--error",    "--open-mode",
    "--requeue",   "--array",  "--no-requeue",      "--wrap",   "--parsable", "--chdir",
    "--test-only", "--wait",   "--input",           "--help",   "--job-name"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// The value of " KEY=value " in a line of scontrol; empty if it is not there or says "(null)".
std::string field(std::string_view line, std::string_view key) {
  const std::string wanted = fmt::format("{}=", key);
  for (size_t at = line.find(wanted); at != std::string_view::npos;
       at = line.find(wanted, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + wanted.size());
    const std::string_view value = rest.substr(0, std::min(rest.find_first_of(" \n"), rest.size()));
    return value == "(null)" ? "" : std::string(value);
  }
  return "";
}

// "75:0" is an exit code, "0:9" a signal.
int parse_exit(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto code = parse_whole_number(text.substr(0, colon));
  const auto number = parse_whole_number(text.substr(std::min(colon + 1, text.size())));
  if (number && *number > 0 && *number < 128) return -static_cast<int>(*number);
  return code && *code >= 0 && *code < 256 ? static_cast<int>(*code) : 0;
}

}  // namespace

Status check_slurm_options(const std::vector<std::string>& options) {
  std::vector<std::string> problems;
  for (const std::string& option : options) {
    const std::string name = option.substr(0, option.find('='));
    const std::string shown = printable_line(option);
    if (!option.starts_with("--") || option.size() < 4 || option != shown) {
      problems.push_back(fmt::format("'{}' is not of the form --partition=gpu, one word", shown));
    } else if (std::ranges::find(kOurs, name) != kOurs.end()) {
      problems.push_back(fmt::format("{} is tern's to say", name));
    }
  }
  if (problems.empty()) return {};
  return fail(Code::invalid,
              fmt::format("options for Slurm (launch.slurm, --slurm): {}; correct them",
                          fmt::join(problems, "; ")));
}

std::vector<std::string> sbatch_command(const SlurmSubmission& submission) {
  std::vector<std::string> words = {"sbatch",
                                    "--parsable",
                                    "--job-name=tern-" + submission.name,
                                    fmt::format("--nodes={}", submission.machines),
                                    "--ntasks-per-node=1",
                                    "--requeue",
                                    "--open-mode=append",
                                    fmt::format("--signal=TERM@{}", kWarnSeconds),
                                    "--output=" + slurm_output(submission.log),
                                    "--chdir=" + submission.folder.string()};
  // Of two that say the same the later counts: --signal is the user's if they give it.
  words.insert(words.end(), submission.options.begin(), submission.options.end());
  words.push_back(submission.script.string());
  return words;
}

std::string slurm_script(const std::filesystem::path& tern, const std::filesystem::path& folder) {
  return fmt::format("#!/bin/sh\nexec {} agent slurm-job {}\n", quote_shell(tern.string()),
                     quote_shell(folder.string()));
}

std::vector<std::string> srun_command(const SlurmStepStart& start) {
  std::vector<std::string> words = {"env"};
  for (const auto& [name, value] : start.environment) words.push_back(name + "=" + value);
  words.insert(words.end(),
               {"srun", "--nodes=1", "--ntasks=1", fmt::format("--relative={}", start.machine),
                "--job-name=" + slurm_step_name(start.machine), "--input=none"});
  if (!start.is_heard) words.emplace_back("--output=none");
  // Since 22.05 a step does not take it over from its job.
  if (!start.cpus.empty()) words.push_back("--cpus-per-task=" + start.cpus);
  words.insert(words.end(), start.command.begin(), start.command.end());
  return words;
}

int parse_srun_end(int exit_code, std::string_view said) {
  // srun leaves a step whose node has failed to its fate, with the exit code 0.
  if (said.find("Node failure") != std::string_view::npos) return -1;
  const bool has_exited = said.find("Exited with exit code") != std::string_view::npos;
  return exit_code > 128 && !has_exited ? 128 - exit_code : exit_code;
}

bool has_srun_failed(int exit_code, std::string_view said) {
  return exit_code > 0 && exit_code <= 128 &&
         said.find("Exited with exit code") == std::string_view::npos;
}

std::string slurm_step_name(size_t machine) { return fmt::format("machine-{}", machine); }

std::string slurm_output(const std::filesystem::path& path) {
  std::string text;
  for (const char c : path.string()) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

Result<int64_t> parse_sbatch(std::string_view said) {
  const auto job = parse_whole_number(said.substr(0, said.find(';')));
  if (job && *job > 0) return *job;
  return fail(Code::corrupt,
              fmt::format("sbatch says '{}' where a job's number should be", printable_line(said)));
}

bool SlurmJobState::is_alive() const {
  constexpr std::array<std::string_view, 12> kEnds = {
      "COMPLETED",     "CANCELLED", "FAILED",  "TIMEOUT",   "NODE_FAIL",     "PREEMPTED",
      "OUT_OF_MEMORY", "DEADLINE",  "REVOKED", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL"};
  return std::ranges::find(kEnds, state) == kEnds.end();
}

Result<SlurmJobState> parse_scontrol_job(std::string_view said) {
  SlurmJobState job{.state = field(said, "JobState"),
                    .reason = field(said, "Reason"),
                    .nodes = field(said, "NodeList"),
                    .exit_code = parse_exit(field(said, "ExitCode"))};
  if (job.state.empty()) {
    return fail(Code::corrupt, fmt::format("scontrol says '{}' where a job's state should be",
                                           printable_line(said)));
  }
  if (job.reason == "None") job.reason.clear();
  job.restarts = parse_whole_number(field(said, "Restarts")).value_or(0);
  return job;
}

Result<SlurmJobState> parse_sacct(std::string_view said) {
  const std::vector<std::string_view> lines = split(said, '\n');
  const std::vector<std::string_view> parts =
      lines.empty() ? std::vector<std::string_view>() : split(lines.back(), '|');
  if (parts.size() != 2) return fail(Code::not_found, "sacct knows nothing of it");
  // "CANCELLED by 1000"
  SlurmJobState job;
  job.state = split(parts[0], ' ').front();
  job.exit_code = parse_exit(parts[1]);
  return job;
}

std::map<std::string, std::string> parse_steps(std::string_view said) {
  std::map<std::string, std::string> steps;
  for (const std::string_view line : split(said, '\n')) {
    const size_t bar = line.find('|');
    if (bar == std::string_view::npos) continue;
    steps[std::string(line.substr(bar + 1))] = std::string(line.substr(0, bar));
  }
  return steps;
}

std::vector<std::string> parse_hostnames(std::string_view said) {
  std::vector<std::string> names;
  for (const std::string_view line : split(said, '\n')) names.push_back(printable_line(line));
  return names;
}

std::map<std::string, std::string> parse_node_addresses(std::string_view said) {
  std::map<std::string, std::string> addresses;
  for (const std::string_view line : split(said, '\n')) {
    const std::string name = field(line, "NodeName");
    if (!name.empty()) addresses[name] = field(line, "NodeAddr");
  }
  return addresses;
}

int slurm_port(int64_t job, int64_t restart, int64_t attempt, size_t machine) {
  const auto mixed = static_cast<uint64_t>(job) * 131 + static_cast<uint64_t>(restart) * 1009 +
                     static_cast<uint64_t>(attempt) * 3301 + machine;
  return kFirstPort + static_cast<int>(mixed % kPorts);
}

}  // namespace tern
