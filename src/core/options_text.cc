// Options as text: values and durations, and the run file, table and page made of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "core/options.h"

namespace tern {
namespace {

constexpr size_t kColumnsMax = 96;  // of a comment in a run file, "# " included

// Far beyond any use, and still far from overflowing when counted in nanoseconds.
constexpr double kDurationMsMax = 36'500.0 * 86'400'000;

struct Unit {
  std::string_view name;
  int64_t ms;
};
// Largest first; a bare number is seconds.
constexpr Unit kUnits[] = {
    {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}};

const Unit* unit_named(std::string_view name) {
  if (name.empty()) name = "s";
  const auto* unit = std::ranges::find(kUnits, name, &Unit::name);
  return unit == std::end(kUnits) ? nullptr : unit;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int64_t value) { return fmt::format("{}", value); }
std::string value_text(const std::string& value) { return quote_toml(value); }
std::string value_text(Milliseconds value) { return quote_toml(format_duration(value)); }

// The shortest digits that read back as the same double; a whole one gets ".0", which is what
// makes it a float to TOML.
std::string value_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

template <typename T>
std::string value_text(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(value_text(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// A bound of an option as its values are written: 256, 0.5, 30s.
std::string bound_text(double bound, const OptionSet::Field& field) {
  if (!std::holds_alternative<Milliseconds*>(field)) return fmt::format("{}", bound);
  return format_duration(Milliseconds(std::llround(bound * 1000)));
}

std::string range_text(const OptionRules& rules, const OptionSet::Field& field) {
  const bool has_min = std::isfinite(rules.min);
  const bool has_max = std::isfinite(rules.max);
  const std::string min = has_min ? bound_text(rules.min, field) : "";
  const std::string max = has_max ? bound_text(rules.max, field) : "";
  if (has_min && has_max) {
    return rules.above_min ? fmt::format("above {}, at most {}", min, max)
                           : fmt::format("from {} to {}", min, max);
  }
  if (has_min)
    return rules.above_min ? fmt::format("above {}", min) : fmt::format("{} or more", min);
  return has_max ? fmt::format("at most {}", max) : "";
}

// Breaks text at spaces into lines of at most kColumnsMax, each a comment.
std::string as_comment(std::string_view text) {
  std::string lines;
  std::string line = "#";
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (line.size() > 1 && line.size() + 1 + word.size() > kColumnsMax) {
      lines += line + "\n";
      line = "#";
    }
    line.append(" ").append(word);
  }
  return line.size() > 1 ? lines + line + "\n" : lines;
}

std::string comment_of(const OptionSet::Entry& entry) {
  std::string text = entry.rules.help;
  const std::string allowed = allowed_values(entry);
  if (!allowed.empty()) text += fmt::format(" Allowed: {}.", allowed);
  if (entry.rules.on_resume == OnResume::may_change) text += " (may change on resume)";
  return as_comment(text);
}

// The options outside any section, then section by section; a nested section may have been
// described in the middle of its parent.
std::vector<OptionSet::Section> in_file_order(const std::vector<OptionSet::Section>& sections) {
  std::vector<OptionSet::Section> ordered = {{"", "", ""}};
  ordered.insert(ordered.end(), sections.begin(), sections.end());
  return ordered;
}

std::string heading(const OptionSet::Section& section) {
  return section.list.empty() ? fmt::format("[{}]\n", section.name)
                              : fmt::format("[[{}]]\n", section.list);
}

constexpr std::string_view kMarkdownHead =
    "| Key | Type | Default | Allowed | On resume | Across ranks | What it does |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string markdown_row(const OptionSet::Entry& entry) {
  const bool may_change = entry.rules.on_resume == OnResume::may_change;
  const bool may_differ = entry.rules.across_ranks == AcrossRanks::may_differ;
  return fmt::format("| `{}` | {} | `{}` | {} | {} | {} | {} |\n", entry.name(),
                     type_name(entry.field), cell(entry.default_text), cell(allowed_values(entry)),
                     may_change ? "may change" : "must agree",
                     may_differ ? "may differ" : "must agree", cell(entry.rules.help));
}

}  // namespace

std::string Problem::to_string() const {
  if (line == 0) return fmt::format("{}: {}", source, message);
  return fmt::format("{}:{}:{}: {}", source, line, column, message);
}

Result<Milliseconds> parse_duration(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return fail(Code::invalid,
                fmt::format("{} {}; write a length of time such as \"30s\", \"500ms\", \"5m\", "
                            "\"1.5h\" or \"2d\"",
                            quote_toml(text), why));
  };
  const std::string_view trimmed = trim(text);
  double number = 0;
  const char* const end = trimmed.data() + trimmed.size();
  const auto [rest, failure] = std::from_chars(trimmed.data(), end, number);
  if (failure == std::errc::invalid_argument) return refuse("is no length of time");
  const Unit* unit = unit_named(trim(std::string_view(rest, static_cast<size_t>(end - rest))));
  if (unit == nullptr) return refuse("is no length of time");

  const double ms = number * static_cast<double>(unit->ms);
  if (std::signbit(ms) && ms != 0) return refuse("is negative");
  if (failure != std::errc{} || !(ms <= kDurationMsMax)) return refuse("is not within a century");
  if (ms > 0 && ms < 0.5) return refuse("is less than a millisecond");
  return Milliseconds(std::llround(ms));
}

std::string format_duration(Milliseconds duration) {
  if (duration.count() == 0) return "0s";
  const auto* unit = std::ranges::find_if(
      kUnits, [duration](const Unit& u) { return duration.count() % u.ms == 0; });
  return fmt::format("{}{}", duration.count() / unit->ms, unit->name);
}

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + '"';
}

std::string to_toml_value(const OptionSet::Field& field) {
  return std::visit([](const auto* value) { return value_text(*value); }, field);
}

std::string_view type_name(const OptionSet::Field& field) {
  struct Name {
    std::string_view operator()(const bool*) { return "true or false"; }
    std::string_view operator()(const int64_t*) { return "whole number"; }
    std::string_view operator()(const double*) { return "number"; }
    std::string_view operator()(const std::string*) { return "text"; }
    std::string_view operator()(const Milliseconds*) { return "length of time"; }
    std::string_view operator()(const std::vector<int64_t>*) { return "list of whole numbers"; }
    std::string_view operator()(const std::vector<double>*) { return "list of numbers"; }
    std::string_view operator()(const std::vector<std::string>*) { return "list of texts"; }
  };
  return std::visit(Name{}, field);
}

std::string allowed_values(const OptionSet::Entry& entry) {
  const std::vector<std::string>& choices = entry.rules.choices;
  if (choices.empty()) return range_text(entry.rules, entry.field);
  std::string text = quote_toml(choices.front());
  for (size_t i = 1; i < choices.size(); ++i) {
    text += (i + 1 == choices.size() ? " or " : ", ") + quote_toml(choices[i]);
  }
  return text;
}

std::string OptionSet::to_toml(Comments comments) const {
  const bool with_comments = comments == Comments::yes;
  std::string text;
  for (const Section& section : in_file_order(sections_)) {
    if (!section.name.empty()) {
      if (!text.empty()) text += "\n";
      if (with_comments) text += as_comment(section.help);
      text += heading(section);
    }
    for (const Entry& entry : entries_) {
      if (entry.section() != section.name) continue;
      if (with_comments && !text.empty()) text += "\n";
      if (with_comments) text += comment_of(entry);
      text += fmt::format("{} = {}\n", entry.name(), to_toml_value(entry.field));
    }
  }
  return text;
}

std::string OptionSet::to_table() const {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const Entry& entry : entries_) {
    name_width = std::max(name_width, entry.name().size());
    const std::string value = to_toml_value(entry.field);
    if (value != entry.default_text) value_width = std::max(value_width, value.size());
  }
  std::string text;
  for (const Section& section : in_file_order(sections_)) {
    if (!section.name.empty()) text += heading(section);
    for (const Entry& entry : entries_) {
      if (entry.section() != section.name) continue;
      const std::string value = to_toml_value(entry.field);
      if (value == entry.default_text) {
        text += fmt::format("  {:<{}}  {}\n", entry.name(), name_width, value);
      } else {
        text += fmt::format("* {:<{}}  {:<{}}  (default {})\n", entry.name(), name_width, value,
                            value_width, entry.default_text);
      }
    }
  }
  return text;
}

std::string OptionSet::markdown_rows() const {
  std::string rows;
  for (const Entry& entry : entries_) rows += markdown_row(entry);
  return rows;
}

std::string OptionSet::to_markdown() const {
  std::string text;
  for (const Section& section : in_file_order(sections_)) {
    if (!section.list.empty()) continue;
    std::string rows;
    for (const Entry& entry : entries_) {
      if (entry.section() == section.name) rows += markdown_row(entry);
    }
    if (!text.empty()) text += "\n";
    if (!section.name.empty()) text += fmt::format("## [{}]\n\n{}\n", section.name, section.help);
    if (rows.empty()) continue;
    if (!text.empty()) text += "\n";
    text += kMarkdownHead;
    text += rows;
  }
  for (const List& list : lists_) {
    OptionSet one;
    text += fmt::format("\n## [[{}]]\n\n{}\n\n{}{}", list.name, list.help, kMarkdownHead,
                        list.describe_one(one, list.name));
  }
  return text;
}

}  // namespace tern
