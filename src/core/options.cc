#include "core/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace tern {
namespace {

std::string_view section_of(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? "" : key.substr(0, dot);
}

std::string_view name_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

std::string join_key(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

// A mistyped name inside a message: whatever is in it, the message stays one line.
std::string shown(std::string_view name) {
  const std::string quoted = quote_toml(name);
  return quoted.substr(1, quoted.size() - 2);
}

// Edits (insert, remove, replace, swap neighbours) that turn one text into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view mistyped,
                                        const std::vector<std::string>& known) {
  // A third of the letters may be wrong, but never all of them. The cap keeps a pasted page cheap.
  constexpr size_t kLengthMax = 100;
  if (mistyped.empty() || mistyped.size() > kLengthMax) return std::nullopt;
  size_t best_distance = std::max<size_t>(1, mistyped.size() / 3) + 1;
  best_distance = std::min(best_distance, mistyped.size());
  std::optional<std::string> best;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(mistyped, name);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = name;
  }
  return best;
}

std::string_view OptionSet::Entry::section() const { return section_of(key); }

std::string_view OptionSet::Entry::name() const { return name_of(key); }

void OptionSet::add(std::string_view name, Field field, OptionRules rules) {
  std::string key = join_key(section_, name);
  TERN_CHECK(!name.empty() && find(key) == nullptr);
  std::string default_text = to_toml_value(field);
  entries_.push_back({std::move(key), field, std::move(rules), std::move(default_text)});
}

void OptionSet::begin_section(std::string_view name, std::string_view help) {
  TERN_CHECK(!name.empty() && name.find('.') == std::string_view::npos);
  section_ = join_key(section_, name);
  TERN_CHECK(!is_section(section_));
  sections_.push_back({section_, std::string(help), ""});
}

void OptionSet::end_section() {
  // An item's name has its list's in front, which is no section.
  section_ = find_list(section_of(section_)) != nullptr ? "" : section_of(section_);
}

void OptionSet::begin_item(std::string_view list, size_t index) {
  section_ = fmt::format("{}.{}", list, index);
  sections_.push_back({section_, "", std::string(list)});
}

void OptionSet::resize_list(const List& list, size_t count) {
  const std::string prefix = list.name + ".";
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key.starts_with(prefix); });
  std::erase_if(sections_, [&](const Section& section) { return section.list == list.name; });
  list.describe_all(*this, list.name, count);
}

const OptionSet::List* OptionSet::find_list(std::string_view name) const {
  const auto list = std::ranges::find(lists_, name, &List::name);
  return list == lists_.end() ? nullptr : &*list;
}

std::vector<std::pair<std::string, size_t>> OptionSet::list_sizes() const {
  std::vector<std::pair<std::string, size_t>> sizes;
  for (const List& list : lists_) sizes.emplace_back(list.name, list.size());
  return sizes;
}

const OptionSet::Entry* OptionSet::find(std::string_view key) const {
  const auto entry = std::ranges::find(entries_, key, &Entry::key);
  return entry == entries_.end() ? nullptr : &*entry;
}

bool OptionSet::is_section(std::string_view name) const {
  return std::ranges::find(sections_, name, &Section::name) != sections_.end();
}

std::vector<std::string> OptionSet::names_in(std::string_view section) const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (entry.section() == section) names.emplace_back(entry.name());
  }
  return names;
}

std::vector<std::string> OptionSet::section_names() const {
  std::vector<std::string> names;
  for (const Section& section : sections_) {
    if (section.list.empty()) names.push_back(section.name);
  }
  for (const List& list : lists_) names.push_back(list.name);
  return names;
}

std::string OptionSet::unknown_section(std::string_view name) const {
  const std::vector<std::string> names = section_names();
  const std::string start = fmt::format("unknown section [{}]; ", shown(name));
  if (const auto near = nearest_name(name, names)) {
    return start + fmt::format("did you mean [{}]?", *near);
  }
  return start + fmt::format("the sections are {}", fmt::join(names, ", "));
}

std::string OptionSet::unknown_key(std::string_view key) const {
  const std::string start = fmt::format("unknown key '{}'; ", shown(key));
  const auto did_you_mean = [&start](std::string_view guess) {
    return start + fmt::format("did you mean '{}'?", guess);
  };
  if (is_section(key)) {
    return start + fmt::format("it is a section with the keys {}", fmt::join(names_in(key), ", "));
  }
  const std::string_view section = section_of(key);
  const std::string_view name = name_of(key);
  const std::vector<std::string> names = names_in(section);
  if (const auto near = nearest_name(name, names)) return did_you_mean(join_key(section, *near));

  // The right name in the wrong section, or in a mistyped one.
  std::vector<std::string> keys;
  for (const Entry& entry : entries_) keys.push_back(entry.key);
  const auto same_name = [name](const std::string& known) { return name_of(known) == name; };
  if (!is_section(section)) {
    if (const auto near = nearest_name(key, keys)) return did_you_mean(*near);
  }
  if (const auto other = std::ranges::find_if(keys, same_name); other != keys.end()) {
    return did_you_mean(*other);
  }
  if (!names.empty()) {
    return start +
           (section.empty() ? "the keys outside any section are "
                            : fmt::format("the keys of [{}] are ", section)) +
           fmt::format("{}", fmt::join(names, ", "));
  }
  if (!section.empty()) return start + unknown_section(section);
  return start + fmt::format("the sections are {}", fmt::join(section_names(), ", "));
}

std::optional<std::string> OptionSet::value_of(std::string_view key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  return to_toml_value(entry->field);
}

std::vector<OptionChange> changed_options(const OptionSet& before, const OptionSet& after) {
  std::vector<OptionChange> changes;
  for (const OptionSet::Entry& entry : after.entries()) {
    const std::optional<std::string> old_value = before.value_of(entry.key);
    const std::string new_value = to_toml_value(entry.field);
    if (!old_value || *old_value == new_value) continue;
    changes.push_back({entry.key, *old_value, new_value, entry.rules.on_resume});
  }
  const auto sizes_before = before.list_sizes();
  const auto sizes_after = after.list_sizes();
  for (size_t i = 0; i < std::min(sizes_before.size(), sizes_after.size()); ++i) {
    if (sizes_before[i] == sizes_after[i]) continue;
    const auto words = [](size_t count) { return fmt::format("a list of {}", count); };
    changes.push_back({sizes_after[i].first, words(sizes_before[i].second),
                       words(sizes_after[i].second), OnResume::must_agree});
  }
  return changes;
}

}  // namespace tern
