// Reads the source tree and holds it to CONTRIBUTING.md: what may include what, lengths, banned
// calls, forgotten files, a true layout table. Each check is a function from text to complaints,
// and is tried on a planted violation first, so that a check that finds nothing is known to look.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Complaints = std::vector<std::string>;

constexpr size_t kLinesMax = 500;
constexpr size_t kFunctionLinesMax = 70;
constexpr size_t kColumnsMax = 100;

// A folder of src/ includes only itself and what its row lists; a row lists only rows above it.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {}},
    {"cuda", {"core"}},
    {"storage", {"core"}},
    {"cloud", {"core", "storage"}},
    {"preempt", {"core"}},
    {"ranks", {"core", "storage", "preempt"}},
    {"program", {"core", "storage", "preempt", "ranks"}},
    {"fleet", {"core", "storage", "preempt"}},
    {"model", {"core"}},
    {"image", {"core"}},
    {"dataset", {"core", "storage", "image"}},
    {"import", {"core", "storage", "image", "dataset"}},
    {"loader", {"core", "image", "dataset"}},
    {"report", {"core", "storage"}},
    {"train",
     {"core", "cuda", "storage", "cloud", "preempt", "ranks", "model", "image", "dataset", "loader",
      "report"}},
    {"cli",
     {"core", "cuda", "storage", "cloud", "preempt", "ranks", "program", "fleet", "model", "image",
      "dataset", "import", "loader", "report", "train"}},
};

// Headers of a library that only some folders may see, so that it can be exchanged.
struct Fence {
  std::string header;
  std::set<std::string> folders;
};
const std::vector<Fence> kFences = {
    {"torch/", {"model", "train"}}, {"ATen/", {"model", "train"}},
    {"c10/", {"model", "train"}},   {"openssl/", {"core"}},
    {"toml++/", {"core"}},          {"zlib.h", {"dataset", "import", "fuzz"}},
    {"CLI/", {"cli", "train"}},     {"jpeglib.h", {"image"}},
    {"png.h", {"image"}},           {"hwy/", {"image"}},
    {"archive.h", {"import"}},      {"curl/", {"core"}},
    {"pugixml.hpp", {"cloud"}},
};

// Calls that bypass the doors of core; `allowed` are beginnings of paths.
struct Ban {
  std::string call;
  std::string instead;
  std::vector<std::string> allowed;
  bool allowed_in_tests = false;
};
const std::vector<Ban> kBans = {
    {"sleep_for", "Clock::wait_for", {}},
    {"sleep_until", "Clock::wait_for", {}},
    {"sleep(", "Clock::wait_for", {}},
    {"usleep(", "Clock::wait_for", {}},
    {"nanosleep(", "Clock::wait_for", {}},
    {"steady_clock::now", "Clock::now", {"src/core/clock.cc"}},
    {"system_clock::now", "Clock::unix_ms", {"src/core/clock.cc"}},
    {"high_resolution_clock", "Clock::now", {}},
    {"clock_gettime(", "Clock", {"src/core/clock.cc"}},
    {"gettimeofday(", "Clock::unix_ms", {}},
    {"cout", "a Result, or Log", {"src/cli/"}},
    {"rand(", "Random", {}},
    {"srand(", "Random", {}},
    {"random_device", "Random", {}},
    {"getenv(", "an option", {"src/cli/", "src/train/main.cc"}, /*allowed_in_tests=*/true},
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_test(const std::string& path) {
  return path.ends_with("_test.cc") || path.starts_with("tests/");
}

// "storage" for src/storage/disk_store.cc, "tests" for tests/x.cc.
std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.starts_with("src/") ? parent.substr(4) : parent;
}

std::string at(const std::string& path, size_t line) { return path + ":" + std::to_string(line); }

size_t line_of(std::string_view text, size_t position) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(position);
  return 1 + static_cast<size_t>(std::count(text.begin(), end, '\n'));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Where `name` stands as a whole word. A name that ends in "(" is whole on that side.
std::vector<size_t> find_word(std::string_view text, std::string_view name) {
  std::vector<size_t> found;
  for (size_t i = text.find(name); i != std::string_view::npos; i = text.find(name, i + 1)) {
    const size_t end = i + name.size();
    const bool begins = i == 0 || !is_word(text[i - 1]);
    const bool ends = end == text.size() || !is_word(text[end]) || !is_word(name.back());
    if (begins && ends) found.push_back(i);
  }
  return found;
}

// The position after the string or character literal that begins at `i`.
size_t end_of_literal(std::string_view text, size_t i) {
  const char quote = text[i];
  if (quote == '"' && i > 0 && text[i - 1] == 'R') {
    const size_t open = text.find('(', i);
    const std::string close = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
    return std::min(text.find(close, open), text.size() - close.size()) + close.size();
  }
  for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i) {
    if (text[i] == '\\') ++i;
  }
  return std::min(i + 1, text.size());
}

// The position after the preprocessor directive at `i`, with the lines it continues on.
size_t end_of_directive(std::string_view text, size_t i) {
  while (i < text.size() && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return std::min(i, text.size());
}

// The text with comments, literals and preprocessor lines blanked out, lines kept.
std::string only_code(std::string_view text) {
  std::string code(text);
  bool line_is_blank = true;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      end = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else if (text[i] == '#' && line_is_blank) {
      end = end_of_directive(text, i);
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
      end = end_of_literal(text, i);
    }
    for (size_t k = i; k < end; ++k) {
      if (code[k] != '\n') code[k] = ' ';
    }
    line_is_blank = end == i && (text[i] == '\n' || (line_is_blank && text[i] == ' '));
    i = std::max(end, i + 1);
  }
  return code;
}

Complaints check_includes(const std::string& path, const std::string& text) {
  Complaints complaints;
  const std::string folder = folder_of(path);
  const auto row = kMayInclude.find(folder);
  const bool in_src = path.starts_with("src/");
  if (in_src && row == kMayInclude.end()) return {path + ": " + folder + " has no row"};
  size_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (!line.starts_with("#include ") || line.size() < 12) continue;
    const std::string header = line.substr(10);
    const std::string from = header.substr(0, header.find('/'));
    const bool is_ours = line[9] == '"';
    if (is_ours && in_src && header.find('/') == std::string::npos) {
      complaints.push_back(at(path, number) + ": write the include from src/: " + line);
    } else if (is_ours && in_src && from != folder && !row->second.contains(from)) {
      complaints.push_back(at(path, number) + ": " + folder + " may not include " + from);
    }
    for (const Fence& fence : kFences) {
      if (!header.starts_with(fence.header) || fence.folders.contains(folder)) continue;
      complaints.push_back(at(path, number) + ": <" + fence.header + "> may not be seen here");
    }
  }
  return complaints;
}

Complaints check_lines(const std::string& path, const std::string& text) {
  Complaints complaints;
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() > kLinesMax) {
    complaints.push_back(path + ": " + std::to_string(lines.size()) + " lines; split it");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    // Columns, not bytes: UTF-8 continuation bytes do not count.
    const auto columns = std::count_if(lines[i].begin(), lines[i].end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    });
    if (static_cast<size_t>(columns) > kColumnsMax) {
      complaints.push_back(at(path, i + 1) + ": " + std::to_string(columns) + " columns");
    }
  }
  return complaints;
}

enum class Scope { outer, function, inner };  // outer: a namespace or a type

// What the "{" after `statement` opens.
Scope scope_after(const std::string& statement) {
  for (const char* word : {"namespace", "class", "struct", "union", "enum"}) {
    const std::vector<size_t> found = find_word(statement, word);
    // `enum class` as a parameter type would stand after a parenthesis.
    if (!found.empty() && found.front() < statement.find('(')) return Scope::outer;
  }
  if (statement.find("extern ") == 0) return Scope::outer;
  const size_t last = statement.find_last_not_of(" \n");
  const bool initialises = last != std::string::npos && statement[last] == '=';
  return statement.find('(') != std::string::npos && !initialises ? Scope::function : Scope::inner;
}

// Finds functions by their braces: in a namespace or a type, "{" after something with a "(".
Complaints check_functions(const std::string& path, const std::string& text) {
  Complaints complaints;
  const std::string code = only_code(text);
  std::vector<Scope> scopes;
  size_t begin = 0;           // of the current statement, in an outer scope
  size_t function_begin = 0;  // of the statement that opened the innermost function
  for (size_t i = 0; i < code.size(); ++i) {
    const bool outside = scopes.empty() || scopes.back() == Scope::outer;
    if (outside && code[i] == '{') {
      begin = std::min(code.find_first_not_of(" \n", begin), i);
      scopes.push_back(scope_after(code.substr(begin, i - begin)));
      function_begin = begin;
    } else if (code[i] == '{') {
      scopes.push_back(Scope::inner);
    } else if (code[i] == '}' && !scopes.empty()) {
      const Scope closed = scopes.back();
      scopes.pop_back();
      const size_t next = std::min(code.find_first_not_of(" \n", i + 1), code.size() - 1);
      // `: a_{1}, b_{2} {`: the braces of a member initialiser; the function is still to come.
      const bool goes_on = closed == Scope::function && (code[next] == ',' || code[next] == '{');
      if (goes_on || (!scopes.empty() && scopes.back() != Scope::outer)) continue;
      const size_t lines = line_of(code, i) - line_of(code, function_begin) + 1;
      if (closed == Scope::function && lines > kFunctionLinesMax) {
        complaints.push_back(at(path, line_of(code, function_begin)) + ": a function of " +
                             std::to_string(lines) + " lines; split it");
      }
    }
    const bool ends = code[i] == ';' || code[i] == '}' || code[i] == '{';
    if (ends && (scopes.empty() || scopes.back() == Scope::outer)) begin = i + 1;
  }
  if (!scopes.empty()) complaints.push_back(path + ": braces do not match; mend this check");
  return complaints;
}

Complaints check_calls(const std::string& path, const std::string& text) {
  Complaints complaints;
  const std::string code = only_code(text);
  for (const Ban& ban : kBans) {
    if (ban.allowed_in_tests && is_test(path)) continue;
    if (std::any_of(ban.allowed.begin(), ban.allowed.end(),
                    [&](const std::string& allowed) { return path.starts_with(allowed); })) {
      continue;
    }
    for (const size_t position : find_word(code, ban.call)) {
      complaints.push_back(at(path, line_of(code, position)) + ": " + ban.call + ": use " +
                           ban.instead);
    }
  }
  return complaints;
}

// The words are put together here so that this file does not contain them.
Complaints check_leftovers(const std::string& path, const std::string& text) {
  Complaints complaints;
  for (const std::string word : {"FIX"
                                 "ME",
                                 "TO"
                                 "DO",
                                 "XX"
                                 "X"}) {
    for (const size_t position : find_word(text, word)) {
      complaints.push_back(at(path, line_of(text, position)) + ": leftover " + word);
    }
  }
  return complaints;
}

// A path that exists on one machine only.
Complaints check_machine_paths(const std::string& path, const std::string& text) {
  Complaints complaints;
  for (const std::string name : {"/ro"
                                 "ot/",
                                 "/ho"
                                 "me/"}) {
    for (size_t i = text.find(name); i != std::string::npos; i = text.find(name, i + 1)) {
      complaints.push_back(at(path, line_of(text, i)) + ": a machine's own path: " + name);
    }
  }
  return complaints;
}

// `listing` is the CMakeLists.txt of the folder that `file` is in.
Complaints check_listed(const std::string& file, const std::string& listing) {
  const std::string name = fs::path(file).filename().string();
  if (!find_word(listing, name).empty()) return {};
  return {file + ": not listed in its folder's CMakeLists.txt, so never built"};
}

// The layout table names every folder of src/, and no other.
Complaints check_layout(const std::string& readme, const std::set<std::string>& folders) {
  Complaints complaints;
  for (const std::string& folder : folders) {
    if (find_word(readme, "src/" + folder).empty()) {
      complaints.push_back("README.md: the layout table lacks src/" + folder);
    }
  }
  for (const size_t position : find_word(readme, "src/")) {
    size_t end = position + 4;
    while (end < readme.size() && is_word(readme[end])) ++end;
    const std::string folder = readme.substr(position + 4, end - position - 4);
    if (!folder.empty() && !folders.contains(folder)) {
      complaints.push_back("README.md: src/" + folder + " does not exist");
    }
  }
  return complaints;
}

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Files of the repository by their path from its root, those whose name ends in one of `endings`.
std::map<std::string, std::string> files(const std::vector<std::string>& endings) {
  const fs::path root = TERN_SOURCE_DIR;
  const std::set<std::string> not_ours = {".git", "build", "runs", ".cache"};
  std::map<std::string, std::string> found;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    const std::string path = it->path().lexically_relative(root).string();
    if (it.depth() == 0 && not_ours.contains(path)) it.disable_recursion_pending();
    const bool wanted = std::any_of(endings.begin(), endings.end(),
                                    [&](const std::string& e) { return path.ends_with(e); });
    if (wanted && it->is_regular_file()) found[path] = read(it->path());
  }
  return found;
}

std::map<std::string, std::string> code_files() { return files({".h", ".cc"}); }

// Runs a check over the tree; every complaint is a failure of its own.
template <typename Check>
void expect_tidy(const std::map<std::string, std::string>& tree, Check check) {
  EXPECT_GT(tree.size(), 20U) << "the tree was not found";
  for (const auto& [path, text] : tree) {
    for (const std::string& complaint : check(path, text)) ADD_FAILURE() << complaint;
  }
}

TEST(Tidy, IncludesFollowTheTable) {
  EXPECT_THAT(check_includes("src/loader/a.cc", "#include \"dataset/plan.h\"\n"), IsEmpty());
  EXPECT_THAT(check_includes("src/dataset/a.cc", "\n#include \"loader/loader.h\"\n"),
              ElementsAre("src/dataset/a.cc:2: dataset may not include loader"));
  EXPECT_THAT(check_includes("src/nowhere/a.cc", ""), SizeIs(1));
  EXPECT_THAT(check_includes("tests/a.cc", "#include \"core/log.h\"\n"), IsEmpty());
  EXPECT_THAT(check_includes("src/core/a.cc", "#include \"log.h\"\n"), SizeIs(1));
  EXPECT_THAT(check_includes("src/cli/a.cc", "#include <torch/torch.h>\n"), SizeIs(1));
  EXPECT_THAT(check_includes("src/train/a.cc", "#include <torch/torch.h>\n"), IsEmpty());
  EXPECT_THAT(check_includes("src/storage/a.cc", "#include <zlib.h>\n"), SizeIs(1));
  expect_tidy(code_files(), check_includes);
}

TEST(Tidy, FilesAndLinesAreShort) {
  EXPECT_THAT(check_lines("a.cc", std::string(500, '\n')), IsEmpty());
  EXPECT_THAT(check_lines("a.cc", std::string(501, '\n')), SizeIs(1));
  EXPECT_THAT(check_lines("a.cc", std::string(100, 'x')), IsEmpty());
  EXPECT_THAT(check_lines("a.cc", "\n" + std::string(101, 'x')),
              ElementsAre("a.cc:2: 101 columns"));
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\u00e9";
  EXPECT_THAT(check_lines("a.cc", accents), IsEmpty());
  expect_tidy(code_files(), check_lines);
}

TEST(Tidy, FunctionsFitAScreen) {
  const std::string body(70, '\n');
  const std::string longer = "{" + body + "}\n";  // 71 lines
  EXPECT_THAT(check_functions("a.cc", "\nint f(int a,\n      int b) " + longer),
              ElementsAre("a.cc:2: a function of 72 lines; split it"));
  EXPECT_THAT(check_functions("a.cc", "int f() {" + std::string(69, '\n') + "}\n"), IsEmpty());
  EXPECT_THAT(check_functions("a.cc", "namespace n {\nclass A {\n  int f() " + longer + "};\n}\n"),
              ElementsAre("a.cc:3: a function of 71 lines; split it"));
  EXPECT_THAT(check_functions("a.cc", "A::A() : a_{1}, b_{'{'} " + longer), SizeIs(1));
  EXPECT_THAT(check_functions("a.cc", "TEST(A, B) " + longer), SizeIs(1));
  EXPECT_THAT(check_functions("a.cc", "namespace n " + longer), IsEmpty());
  EXPECT_THAT(check_functions("a.cc", "const int k[f()] = " + longer), IsEmpty());
  EXPECT_THAT(check_functions("a.cc", "int f() { // }\n  g(\"}\", R\"x(})x\", 1'000); }"),
              IsEmpty());
  EXPECT_THAT(check_functions("a.cc", "int f() {"), SizeIs(1));
  expect_tidy(code_files(), check_functions);
}

TEST(Tidy, NothingGoesPastTheDoorsOfCore) {
  EXPECT_THAT(check_calls("src/a_test.cc", "void f() {\n  std::this_thread::sleep_for(1s);\n}"),
              ElementsAre(HasSubstr("src/a_test.cc:2: sleep_for: use Clock::wait_for")));
  EXPECT_THAT(check_calls("src/train/a.cc", "sleep(1); oversleep(1); asleep();"), SizeIs(1));
  EXPECT_THAT(check_calls("src/train/a.cc", "x = std::chrono::steady_clock::now();"), SizeIs(1));
  EXPECT_THAT(check_calls("src/core/clock.cc", "x = std::chrono::steady_clock::now();"), IsEmpty());
  EXPECT_THAT(check_calls("src/report/a.cc", "std::cout << 1;"), SizeIs(1));
  EXPECT_THAT(check_calls("src/cli/a.cc", "std::cout << 1;"), IsEmpty());
  EXPECT_THAT(check_calls("src/loader/a.cc", "rand(); std::random_device d;"), SizeIs(2));
  EXPECT_THAT(check_calls("src/loader/a.cc", "std::getenv(name);"), SizeIs(1));
  EXPECT_THAT(check_calls("src/loader/a_test.cc", "std::getenv(name);"), IsEmpty());
  EXPECT_THAT(check_calls("src/loader/a.cc", "// rand()\nf(\"rand()\");\n#define rand()\n"),
              IsEmpty());
  expect_tidy(code_files(), check_calls);
}

TEST(Tidy, NothingIsLeftOver) {
  EXPECT_THAT(check_leftovers("a.cc",
                              "\n// FIX"
                              "ME later"),
              SizeIs(1));
  EXPECT_THAT(check_leftovers("a.cc",
                              "mkdtemp(\"/tmp/a.XX"
                              "XXXX\")"),
              IsEmpty());
  expect_tidy(code_files(), check_leftovers);
}

TEST(Tidy, NoFileNamesOneMachine) {
  EXPECT_THAT(check_machine_paths("a.sh",
                                  "\ncd /ro"
                                  "ot/tern"),
              SizeIs(1));
  EXPECT_THAT(check_machine_paths("a.sh", "cd $HOME/tern"), IsEmpty());
  std::map<std::string, std::string> tree =
      files({".h", ".cc", ".md", ".txt", ".toml", ".cmake", ".json", ".py", ".sh", "Makefile"});
  for (const auto& script : fs::directory_iterator(TERN_SOURCE_DIR "/scripts")) {
    tree["scripts/" + script.path().filename().string()] = read(script.path());
  }
  tree[".ci/run"] = read(TERN_SOURCE_DIR "/.ci/run");
  expect_tidy(tree, check_machine_paths);
}

TEST(Tidy, EverySourceFileIsBuilt) {
  EXPECT_THAT(check_listed("src/core/log.cc", "SOURCES log.cc"), IsEmpty());
  EXPECT_THAT(check_listed("src/core/log.cc", "SOURCES blog.cc log_test.cc"), SizeIs(1));
  expect_tidy(files({".cc"}), [](const std::string& path, const std::string&) -> Complaints {
    if (path.starts_with("examples/")) return {};
    return check_listed(path,
                        read(TERN_SOURCE_DIR / fs::path(path).parent_path() / "CMakeLists.txt"));
  });
}

TEST(Tidy, TheReadmeKnowsEveryFolder) {
  EXPECT_THAT(check_layout("| `src/core` | x |\n", {"core"}), IsEmpty());
  EXPECT_THAT(check_layout("| `src/core` | x |\n", {"core", "cli"}), SizeIs(1));
  EXPECT_THAT(check_layout("| `src/core`, `src/gone` |\n", {"core"}), SizeIs(1));
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(TERN_SOURCE_DIR "/src")) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  for (const std::string& complaint : check_layout(read(TERN_SOURCE_DIR "/README.md"), folders)) {
    ADD_FAILURE() << complaint;
  }
}

}  // namespace
}  // namespace tern
