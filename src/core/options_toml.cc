// Options out of TOML: reading a run file and --set, and every complaint about a value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

// The compiled library, not the header's own copy: this file then builds in seconds.
#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include "core/options.h"

namespace tern {
namespace {

using Entry = OptionSet::Entry;
using Problems = std::vector<Problem>;

void report(Problems& problems, const toml::source_position& where, std::string message) {
  problems.push_back({.source = "",
                      .line = static_cast<int>(where.line),
                      .column = static_cast<int>(where.column),
                      .message = std::move(message)});
}

std::string_view found_type(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string: return "text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number with a point or exponent";
    case toml::node_type::boolean: return "true or false";
    case toml::node_type::array: return "a list";
    case toml::node_type::table: return "a table";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time of day";
    case toml::node_type::date_time: return "a date and time";
    case toml::node_type::none: break;
  }
  return "nothing";
}

std::string wanted(const OptionSet::Field& field) {
  const std::string_view type = type_name(field);
  if (std::holds_alternative<bool*>(field) || std::holds_alternative<std::string*>(field)) {
    return std::string(type);
  }
  if (std::holds_alternative<std::vector<std::string>*>(field)) {
    return fmt::format("a {} such as [\"a\", \"b\"]", type);
  }
  return fmt::format("a {}{}", type, type.starts_with("list") ? " such as [1, 2]" : "");
}

bool wrong_type(const Entry& entry, const toml::node& node, std::string_view wanted,
                Problems& problems) {
  report(problems, node.source().begin,
         fmt::format("{} wants {}, not {}", entry.key, wanted, found_type(node)));
  return false;
}

bool in_range(const Entry& entry, const toml::node& node, double number, std::string_view given,
              Problems& problems) {
  const OptionRules& rules = entry.rules;
  const bool above = rules.above_min ? number > rules.min : number >= rules.min;
  if (above && number <= rules.max) return true;
  report(problems, node.source().begin,
         fmt::format("{} = {} is out of range; allowed is {}", entry.key, given,
                     allowed_values(entry)));
  return false;
}

// One read() per type of field: true if `value` was taken from the node, else a problem was added.

bool read(const Entry& entry, const toml::node& node, bool& value, Problems& problems) {
  if (!node.is_boolean()) return wrong_type(entry, node, "true or false", problems);
  value = node.as_boolean()->get();
  return true;
}

bool read(const Entry& entry, const toml::node& node, int64_t& value, Problems& problems) {
  if (!node.is_integer()) return wrong_type(entry, node, "a whole number", problems);
  value = node.as_integer()->get();
  return in_range(entry, node, static_cast<double>(value), fmt::format("{}", value), problems);
}

bool read(const Entry& entry, const toml::node& node, double& value, Problems& problems) {
  if (!node.is_number()) return wrong_type(entry, node, "a number", problems);
  value = *node.value<double>();
  if (!std::isfinite(value)) {
    report(problems, node.source().begin,
           fmt::format("{} = {} is not allowed; write a finite number", entry.key, value));
    return false;
  }
  return in_range(entry, node, value, fmt::format("{}", value), problems);
}

bool read(const Entry& entry, const toml::node& node, std::string& value, Problems& problems) {
  if (!node.is_string()) return wrong_type(entry, node, "text in quotes", problems);
  value = node.as_string()->get();
  const std::vector<std::string>& choices = entry.rules.choices;
  if (value.find('\0') != std::string::npos) {
    report(problems, node.source().begin,
           fmt::format("{} has a zero character in its text; remove it", entry.key));
    return false;
  }
  if (choices.empty() || std::ranges::find(choices, value) != choices.end()) return true;
  std::string message = fmt::format("{} = {} is not allowed; choose {}", entry.key,
                                    quote_toml(value), allowed_values(entry));
  if (const auto near = nearest_name(value, choices)) {
    message += fmt::format("; did you mean {}?", quote_toml(*near));
  }
  report(problems, node.source().begin, std::move(message));
  return false;
}

bool read(const Entry& entry, const toml::node& node, Milliseconds& value, Problems& problems) {
  if (!node.is_string() && !node.is_number()) {
    return wrong_type(entry, node, "a length of time such as \"30s\"", problems);
  }
  const std::string text =
      node.is_string() ? node.as_string()->get() : fmt::format("{}", *node.value<double>());
  const Result<Milliseconds> duration = parse_duration(text);
  if (!duration) {
    report(problems, node.source().begin,
           fmt::format("{}: {}", entry.key, duration.error().message));
    return false;
  }
  value = *duration;
  return in_range(entry, node, static_cast<double>(value.count()) / 1000, format_duration(value),
                  problems);
}

template <typename T>
bool read(const Entry& entry, const toml::node& node, std::vector<T>& values, Problems& problems) {
  if (!node.is_array()) {
    return wrong_type(entry, node, wanted(entry.field), problems);
  }
  values.clear();
  bool all_good = true;
  for (const toml::node& element : *node.as_array()) {
    T value{};
    all_good = read(entry, element, value, problems) && all_good;
    values.push_back(value);
  }
  return all_good;
}

void assign(const Entry& entry, const toml::node& node, Problems& problems) {
  std::visit(
      [&](auto* field) {
        auto value = *field;
        if (read(entry, node, value, problems)) *field = std::move(value);
      },
      entry.field);
}

Result<toml::table> parse(std::string_view text, toml::source_position& where) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    where = error.source().begin;
    return fail(Code::invalid, fmt::format("not valid TOML: {}", error.description()));
  } catch (const std::exception& error) {
    where = {1, 1};
    return fail(Code::invalid, error.what());
  }
}

// One key of a run file, with its sections in front.
struct Item {
  std::string key;
  const toml::node* value;
  toml::source_position where;
};

// Lists every key of the file. A table that is no section is an item itself: somebody mistyped.
void flatten(const toml::table& table, const std::string& prefix,
             const std::function<bool(std::string_view)>& is_section, std::vector<Item>& items) {
  for (const auto& [key, value] : table) {
    const std::string full = prefix + std::string(key.str());
    // A quoted "a.b" is not the key b of section a.
    const bool has_dot = key.str().find('.') != std::string_view::npos;
    if (value.is_table() && !has_dot && is_section(full)) {
      flatten(*value.as_table(), full + ".", is_section, items);
    } else if (value.is_array_of_tables() && !has_dot && is_section(full + ".0")) {
      const toml::array& list = *value.as_array();
      for (size_t i = 0; i < list.size(); ++i) {
        flatten(*list[i].as_table(), fmt::format("{}.{}.", full, i), is_section, items);
      }
    } else {
      items.push_back(
          {has_dot ? fmt::format("{}'{}'", prefix, key.str()) : full, &value, key.source().begin});
    }
  }
}

}  // namespace

std::vector<Problem> OptionSet::load_toml(std::string_view text, std::string_view source) {
  Problems problems;
  toml::source_position syntax_error;
  const Result<toml::table> table = parse(text, syntax_error);
  if (!table) {
    report(problems, syntax_error, table.error().message);
  } else {
    for (const List& list : std::vector<List>(lists_)) {
      const toml::node* given = table->get(list.name);
      // A run file is a page or two; more is somebody's mistake, and would take memory.
      constexpr size_t kItemsMax = 1000;
      if (given == nullptr || !given->is_array()) continue;
      if (given->is_array_of_tables() && given->as_array()->size() <= kItemsMax) {
        resize_list(list, given->as_array()->size());
      } else if (given->as_array()->empty()) {
        resize_list(list, 0);
      }
    }
    std::vector<Item> items;
    flatten(*table, "", [this](std::string_view name) { return is_section(name); }, items);
    for (const Item& item : items) {
      if (const Entry* entry = find(item.key)) {
        assign(*entry, *item.value, problems);
      } else if (const List* list = find_list(item.key)) {
        // An empty list was obeyed above.
        if (item.value->is_array() && item.value->as_array()->empty()) continue;
        report(
            problems, item.where,
            fmt::format("'{0}' is a list of at most 1000; write [[{0}]] on a line of its own for "
                        "each, and its keys below",
                        list->name));
      } else if (is_section(item.key)) {
        report(
            problems, item.where,
            fmt::format("'{0}' is a section; write [{0}] on a line of its own, once, and its keys "
                        "below",
                        item.key));
      } else {
        report(problems, item.where,
               item.value->is_table() ? unknown_section(item.key) : unknown_key(item.key));
      }
    }
  }
  for (Problem& problem : problems) problem.source = source;
  std::ranges::sort(problems, [](const Problem& a, const Problem& b) {
    return std::tie(a.line, a.column, a.message) < std::tie(b.line, b.column, b.message);
  });
  return problems;
}

std::optional<Problem> OptionSet::set(std::string_view assignment) {
  const auto problem = [assignment](std::string_view message) {
    return Problem{"--set", 0, 0, fmt::format("{}: {}", quote_toml(assignment), message)};
  };
  const auto trim = [](std::string_view text) {
    const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
    return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
  };
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) return problem("wants key=value");
  const std::string_view key = trim(assignment.substr(0, equals));
  std::string value(trim(assignment.substr(equals + 1)));
  const Entry* entry = find(key);
  if (entry == nullptr) return problem(unknown_key(key));

  // A shell has eaten the quotes of text="a b"; who wants them to count writes both kinds.
  const bool takes_text = std::holds_alternative<std::string*>(entry->field) ||
                          std::holds_alternative<Milliseconds*>(entry->field);
  const bool is_quoted = value.starts_with('"') || value.starts_with('\'');
  if (takes_text && !is_quoted) value = quote_toml(value);

  toml::source_position ignored;
  const Result<toml::table> table = parse("value = " + value, ignored);
  if (!table || table->size() != 1) {
    return problem(
        fmt::format("{} wants {}, and cannot read {}", key, wanted(entry->field), value));
  }
  Problems problems;
  assign(*entry, *table->get("value"), problems);
  if (problems.empty()) return std::nullopt;
  return problem(problems.front().message);
}

}  // namespace tern
