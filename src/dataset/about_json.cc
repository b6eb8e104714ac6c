#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "dataset/index_format.h"

namespace tern {
namespace {

using Json = nlohmann::json;

// Members of About, their lists, bad samples in a list, their members; nothing of ours is deeper.
constexpr int kDepthMax = 4;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Takes typed members out of an object and remembers the first that is missing or of another type.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {
    if (!json.is_object()) problem_ = "it is no JSON object";
  }

  void text(const char* name, std::string& value) {
    const Json* member = find(name, &Json::is_string, "a text");
    if (member != nullptr) value = member->get<std::string>();
  }
  void count(const char* name, int64_t& value) {
    const Json* member = find(name, &Json::is_number_integer, "a whole number");
    if (member == nullptr) return;
    value = member->get<int64_t>();  // too large a number becomes a negative one
    if (value < 0) refuse(fmt::format("'{}' is out of range", name));
  }
  void texts(const char* name, std::vector<std::string>& values) {
    list(name, &Json::is_string, "a list of texts",
         [&](const Json& item) { values.push_back(item.get<std::string>()); });
  }
  void numbers(const char* name, std::vector<double>& values) {
    list(name, &Json::is_number, "a list of numbers",
         [&](const Json& item) { values.push_back(item.get<double>()); });
  }
  void bad_samples(const char* name, std::vector<BadSample>& values) {
    list(name, &Json::is_object, "a list of objects", [&](const Json& item) {
      Members members(item);
      BadSample& sample = values.emplace_back();
      members.text("name", sample.name);
      members.text("cause", sample.cause);
      if (!members.problem().empty()) refuse(fmt::format("'{}': {}", name, members.problem()));
    });
  }

  void refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  const std::string& problem() const { return problem_; }

 private:
  using Is = bool (Json::*)() const noexcept;

  const Json* find(const char* name, Is is, const char* what) {
    if (!problem_.empty()) return nullptr;
    const auto found = json_.find(name);
    if (found != json_.end() && ((*found).*is)()) return &*found;
    refuse(fmt::format("'{}' is not {}", name, found == json_.end() ? "there" : what));
    return nullptr;
  }
  template <typename Take>
  void list(const char* name, Is is, const char* what, Take take) {
    const Json* items = find(name, &Json::is_array, what);
    if (items == nullptr) return;
    for (const Json& item : *items) {
      if (!(item.*is)()) return refuse(fmt::format("'{}' is not {}", name, what));
      take(item);
    }
  }

  const Json& json_;
  std::string problem_;
};

bool are_finite(const std::vector<double>& values) {
  for (const double value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

std::string format_about(const About& about) {
  TERN_CHECK(are_finite(about.mean) && are_finite(about.stddev));
  Json bad = Json::array();
  for (const BadSample& sample : about.bad) {
    bad.push_back({{"name", sample.name}, {"cause", sample.cause}});
  }
  return dump({{"source", about.source},
               {"representation", about.representation},
               {"root", about.root},
               {"classes", about.classes},
               {"class_titles", about.class_titles},
               {"mean", about.mean},
               {"stddev", about.stddev},
               {"pixels_from", about.pixels_from},
               {"bad", std::move(bad)},
               {"tern_version", about.tern_version}});
}

std::string as_utf8(const std::string& text) {
  return Json::parse(dump(Json(text)), nullptr, /*allow_exceptions=*/false).get<std::string>();
}

Result<About> parse_about(BytesView json) {
  // What is nested deeper is dropped while it is parsed: it could take 70 times its size in memory.
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  const Json parsed = Json::parse(json, is_shallow, /*allow_exceptions=*/false);
  About about;
  Members members(parsed);
  members.text("source", about.source);
  members.text("representation", about.representation);
  members.text("root", about.root);
  members.texts("classes", about.classes);
  members.texts("class_titles", about.class_titles);
  members.numbers("mean", about.mean);
  members.numbers("stddev", about.stddev);
  members.count("pixels_from", about.pixels_from);
  members.bad_samples("bad", about.bad);
  members.text("tern_version", about.tern_version);
  if (!about.class_titles.empty() && about.class_titles.size() != about.classes.size()) {
    members.refuse("there are not as many titles as classes");
  }
  if (about.mean.size() != about.stddev.size()) {
    members.refuse("there are not as many means as standard deviations");
  }
  if (!members.problem().empty()) return fail(Code::corrupt, members.problem());
  return about;
}

}  // namespace tern
