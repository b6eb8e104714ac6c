#include "cli/doctor_trainer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/system_files.h"
#include "storage/file_door.h"

extern char** environ;  // POSIX declares it nowhere

namespace tern {
namespace {

constexpr size_t kOutputBytesMax = 64 << 10;

bool is_of(const std::string& entry, const std::string& name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

// Ours, with the changes.
std::vector<std::string> changed_environment(const std::vector<EnvironmentChange>& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  for (const EnvironmentChange& change : changes) {
    std::erase_if(entries, [&](const std::string& entry) { return is_of(entry, change.name); });
    if (change.value) entries.push_back(change.name + "=" + *change.value);
  }
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// It stays in our process group, so that Ctrl-C ends it too.
Result<pid_t> start(const TrainerQuestion& question, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  std::vector<std::string> arguments = {question.trainer.string(), "--probe-speed",
                                        question.device};
  std::vector<std::string> environment = changed_environment(question.environment);
  pid_t child = 0;
  const int error = posix_spawn(&child, question.trainer.c_str(), &actions, nullptr,
                                pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return child;
  return fail(Code::unavailable, fmt::format("cannot start {}: {}; was it built for this machine?",
                                             question.trainer.string(), std::strerror(error)));
}

// Everything up to the end of file, or to the bound; nothing if that did not come in time.
std::optional<std::string> read_until(int in, Clock& clock, Nanoseconds deadline) {
  std::string output;
  std::array<char, 4096> buffer;
  while (output.size() <= kOutputBytesMax) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - clock.now()).count();
    if (left <= 0) return std::nullopt;
    pollfd source{in, POLLIN, 0};
    const int ready = poll(&source, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t count = read(in, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  return output;
}

std::optional<double> number_at(const nlohmann::json& answer, const char* key) {
  const auto found = answer.find(key);
  if (found == answer.end() || !found->is_number()) return std::nullopt;
  const double number = found->get<double>();
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::string text_at(const nlohmann::json& answer, const char* key) {
  const auto found = answer.find(key);
  return found == answer.end() || !found->is_string() ? ""
                                                      : printable_line(found->get<std::string>());
}

}  // namespace

Result<TrainerSpeed> parse_trainer_answer(const std::string& output) {
  nlohmann::json answer;
  std::string last_words;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last_words = printable_line(line);
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_object()) answer = std::move(parsed);
  }
  const std::optional<double> float32 =
      answer.is_object() ? number_at(answer, "float32_gflops") : std::nullopt;
  if (!float32) {
    constexpr std::string_view kOurName = "tern: ";
    if (last_words.starts_with(kOurName)) last_words.erase(0, kOurName.size());
    return fail(
        Code::unavailable,
        fmt::format("tern-train could not measure with LibTorch: {}",
                    last_words.empty() ? "it said nothing; is there enough memory?" : last_words));
  }
  return TrainerSpeed{.device = text_at(answer, "device"),
                      .libtorch = text_at(answer, "libtorch"),
                      .kernels = text_at(answer, "kernels"),
                      .float32_gflops = *float32,
                      .bfloat16_gflops = number_at(answer, "bfloat16_gflops")};
}

Result<TrainerSpeed> ask_trainer(const TrainerQuestion& question, Clock& clock) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Code::exhausted, fmt::format("cannot make a pipe: {}; raise the limit on open "
                                             "files (ulimit -n)",
                                             std::strerror(errno)));
  }
  const FileDescriptor in(ends[0]);
  std::optional<Result<pid_t>> child;
  {
    const FileDescriptor out(ends[1]);  // closed before reading, or the end would never come
    child = start(question, out.get());
  }
  if (!child->has_value()) return child->error();
  const std::optional<std::string> output =
      read_until(in.get(), clock, clock.now() + question.limit);
  // Whether it has answered or hangs, it is no longer needed. It is our child and not yet waited
  // for, so the number is still its own.
  kill(child->value(), SIGKILL);
  while (waitpid(child->value(), nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!output) {
    return fail(Code::deadline_exceeded,
                fmt::format("tern-train did not measure {} within {:.0f} s; look with `top` at who "
                            "uses the machine, and try again",
                            question.device, to_seconds(question.limit)));
  }
  ASSIGN_OR_RETURN(TrainerSpeed speed, parse_trainer_answer(*output));
  if (speed.device != question.device) {
    return fail(Code::failed_precondition,
                fmt::format("tern-train was asked for {} and measured {}; it is another version's, "
                            "so build or unpack all of tern again",
                            question.device, speed.device));
  }
  return speed;
}

}  // namespace tern
