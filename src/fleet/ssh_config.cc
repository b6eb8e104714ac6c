#include "fleet/ssh_config.h"

#include <fmt/format.h>
#include <glob.h>
#include <strings.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace tern {
namespace {

namespace fs = std::filesystem;

// ssh's own limit of nesting, and limits of ours on what somebody else may have written.
constexpr int kDepthMax = 16;
constexpr size_t kFilesMax = 256;
constexpr size_t kBytesMax = 1 << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f'; }

// The words of a line, as ssh splits it: blanks or one '=' after the keyword, "quoted words", '#'
// begins a comment. Nothing if a quote is not closed.
std::optional<std::vector<std::string>> split_line(std::string_view line) {
  std::vector<std::string> words;
  size_t i = 0;
  while (i < line.size()) {
    while (i < line.size() && (is_blank(line[i]) || (line[i] == '=' && words.size() == 1))) ++i;
    if (i == line.size() || line[i] == '#') break;
    std::string word;
    if (line[i] == '"') {
      const size_t close = line.find('"', i + 1);
      if (close == std::string_view::npos) return std::nullopt;
      word = line.substr(i + 1, close - i - 1);
      i = close + 1;
    } else {
      const size_t begin = i;
      while (i < line.size() && !is_blank(line[i]) && !(line[i] == '=' && words.empty())) ++i;
      word = line.substr(begin, i - begin);
    }
    words.push_back(std::move(word));
  }
  return words;
}

bool is_keyword(const std::string& word, const char* keyword) {
  return strcasecmp(word.c_str(), keyword) == 0;
}

std::vector<fs::path> files_of(const std::string& include, const fs::path& home) {
  fs::path pattern = include;
  if (include.starts_with("~/")) {
    pattern = home / include.substr(2);
  } else if (pattern.is_relative()) {
    pattern = home / ".ssh" / pattern;
  }
  std::vector<fs::path> files;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return files;
}

struct Reading {
  fs::path home;
  size_t files = 0;
  std::vector<std::string> names;
};

Status read_file(const fs::path& file, int depth, Reading& reading) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  if (depth > kDepthMax || ++reading.files > kFilesMax) {
    return fail(Code::invalid, fmt::format("{}: files are included too deep or too often; look for "
                                           "an Include that leads to itself",
                                           file.string()));
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad() || text.size() > kBytesMax) {
    return fail(Code::invalid, fmt::format("{} cannot be read, or is larger than {} bytes; is it "
                                           "an ssh config?",
                                           file.string(), kBytesMax));
  }
  ASSIGN_OR_RETURN(const SshConfigText parsed, parse_ssh_config(text, file.string()));
  for (const std::string& host : parsed.hosts) {
    if (std::ranges::find(reading.names, host) == reading.names.end()) {
      reading.names.push_back(host);
    }
  }
  for (const std::string& include : parsed.includes) {
    for (const fs::path& next : files_of(include, reading.home)) {
      RETURN_IF_ERROR(read_file(next, depth + 1, reading));
    }
  }
  return {};
}

}  // namespace

Result<SshConfigText> parse_ssh_config(std::string_view text, const std::string& source) {
  SshConfigText parsed;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = split_line(text.substr(begin, end - begin));
    begin = end + 1;
    if (!words) {
      return fail(Code::invalid,
                  fmt::format("{}:{}: a quote is opened and not closed", source, number + 1));
    }
    if (words->size() < 2) continue;
    const auto arguments = std::vector<std::string>(words->begin() + 1, words->end());
    if (is_keyword(words->front(), "Include")) {
      parsed.includes.insert(parsed.includes.end(), arguments.begin(), arguments.end());
    } else if (is_keyword(words->front(), "Host")) {
      for (const std::string& name : arguments) {
        if (name.find_first_of("*?!") == std::string::npos) parsed.hosts.push_back(name);
      }
    }
  }
  return parsed;
}

Result<std::vector<std::string>> ssh_host_names(const fs::path& config, const fs::path& home) {
  Reading reading{.home = home};
  RETURN_IF_ERROR(read_file(config, 0, reading));
  return reading.names;
}

// Greedy, and back to the last * where that fails: no input takes more than name times pattern.
bool matches_host_pattern(std::string_view name, std::string_view pattern) {
  size_t n = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace tern
