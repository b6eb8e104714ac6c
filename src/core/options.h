// Options by description: each folder has a plain struct with a default on every field and one
// describe() that lists name, field, help, range and rules. This one declaration feeds the run
// file,
// --set key=value, --help, the start-up table, the copy kept with the run and
// docs/configuration.md.
//
//   struct LoaderOptions { int64_t threads = 2; };
//   inline void describe(OptionSet& set, LoaderOptions& options) {
//     set.add("threads", &options.threads,
//             {.help = "Threads that read and augment samples; 0 loads inside the step loop.",
//              .min = 0, .max = 256, .on_resume = OnResume::may_change});
//   }
//   ...
//   OptionSet set;
//   set.section("loader", "How batches are made.", options.loader);   // calls describe()
//   std::vector<Problem> problems = set.load_toml(text, "run.toml");  // every problem at once
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// May a run that is resumed have another value than the one it began with?
enum class OnResume { must_agree, may_change };
// Must every rank of a run have the same value? Compared when ranks join.
enum class AcrossRanks { must_agree, may_differ };

struct OptionRules {
  std::string help;  // a sentence for people; says what a larger or smaller value costs
  double min = -std::numeric_limits<double>::infinity();  // numbers and durations (in seconds)
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;            // the minimum itself is refused
  std::vector<std::string> choices;  // text options: the only values allowed, if any are listed
  OnResume on_resume = OnResume::must_agree;
  AcrossRanks across_ranks = AcrossRanks::must_agree;
};

// One thing wrong with a run file or a --set. line and column are 1-based; 0 means "not in a file".
struct Problem {
  std::string source;  // "run.toml" or "--set"
  int line = 0;
  int column = 0;
  std::string message;

  std::string to_string() const;  // "run.toml:3:1: unknown key 'optimzer.lr'; did you mean ...?"
};

// A length of time in a run file: "30s", "500ms", "5m", "1.5h", "2d", or a bare number of seconds.
// Never negative, at most a century, rounded to a millisecond. Fails with `invalid`.
Result<Milliseconds> parse_duration(std::string_view text);
// The shortest text with a whole number that parses back to it: "90s", "1500ms", "2d".
std::string format_duration(Milliseconds duration);

// The known name nearest to a mistyped one (by edit distance), if any is near.
std::optional<std::string> nearest_name(std::string_view mistyped,
                                        const std::vector<std::string>& known);

// A view of option structs: it points into them and must not outlive them. Not thread-safe.
class OptionSet {
 public:
  using Field =
      std::variant<bool*, int64_t*, double*, std::string*, Milliseconds*, std::vector<int64_t>*,
                   std::vector<double>*, std::vector<std::string>*>;

  // One described option.
  struct Entry {
    std::string key;  // "optimizer.learning_rate"
    Field field;
    OptionRules rules;
    std::string default_text;  // the value the field had when it was added, as TOML

    std::string_view section() const;  // "optimizer"; empty outside any
    std::string_view name() const;     // "learning_rate"
  };
  struct Section {
    std::string name;  // "optimizer"; "phase.0" for the first of a list
    std::string help;
    std::string list;  // the list that it is an item of, "phase"; else empty
  };

  // Adds one option to the current section. Called by describe(). REQUIRES: a key not yet added.
  void add(std::string_view name, Field field, OptionRules rules);

  // Describes a whole struct under a name; its describe(OptionSet&, Options&) is found by ADL, and
  // may describe sections of its own, which nest ([a.b]).
  template <typename Options>
  void section(std::string_view name, std::string_view help, Options& options) {
    begin_section(name, help);
    describe(*this, options);
    end_section();
  }

  // Describes a list of such structs, [[name]] in a run file, whose keys are "name.0.key" and so
  // on. A file that has the list replaces it whole, so `items` must not be changed in length behind
  // the set's back.
  template <typename Options>
  void list(std::string_view name, std::string_view help, std::vector<Options>& items) {
    TERN_CHECK(section_.empty());
    const auto describe_all = [&items](OptionSet& set, std::string_view list, size_t count) {
      items.resize(count);
      for (size_t i = 0; i < count; ++i) {
        set.begin_item(list, i);
        describe(set, items[i]);
        set.end_section();
      }
    };
    const auto describe_one = [](OptionSet& set, std::string_view list) {
      Options item;
      set.begin_item(list, 0);
      describe(set, item);
      set.end_section();
      return set.markdown_rows();
    };
    const auto size = [&items] { return items.size(); };
    lists_.push_back({std::string(name), std::string(help), describe_all, describe_one, size});
    describe_all(*this, name, items.size());
  }

  // Sets fields from a run file. Reports every problem it finds: syntax, unknown keys with the
  // nearest known one, wrong types, values out of range. Fields with a problem keep their value.
  std::vector<Problem> load_toml(std::string_view text, std::string_view source);

  // Sets one field from "key=value"; value is TOML, or bare text for a text option.
  std::optional<Problem> set(std::string_view assignment);

  // The value of one option as TOML; nothing if there is no such key.
  std::optional<std::string> value_of(std::string_view key) const;

  // A run file with every option, sections in order. With comments it carries the help texts, and
  // is what `tern init` prints; without, the copy kept with a run. load_toml() reads both back.
  enum class Comments { yes, no };
  std::string to_toml(Comments comments) const;

  // A table for people, a line an option: key, value, and a mark where it is not the default.
  std::string to_table() const;

  // docs/configuration.md's body: a table per section.
  std::string to_markdown() const;

  const std::vector<Entry>& entries() const { return entries_; }
  // The lists by name, and how many items each has.
  std::vector<std::pair<std::string, size_t>> list_sizes() const;

 private:
  struct List {
    std::string name;
    std::string help;
    std::function<void(OptionSet&, std::string_view, size_t)> describe_all;
    std::function<std::string(OptionSet&, std::string_view)> describe_one;
    std::function<size_t()> size;
  };
  void begin_item(std::string_view list, size_t index);
  // Makes the list that long, and describes its items anew.
  void resize_list(const List& list, size_t count);
  const List* find_list(std::string_view name) const;
  std::string markdown_rows() const;

  void begin_section(std::string_view name, std::string_view help);
  void end_section();
  const Entry* find(std::string_view key) const;
  bool is_section(std::string_view name) const;
  std::vector<std::string> names_in(std::string_view section) const;
  std::vector<std::string> section_names() const;
  std::string unknown_section(std::string_view name) const;
  std::string unknown_key(std::string_view key) const;

  std::string section_;  // of the options now being added; empty at the top
  std::vector<Section> sections_;
  std::vector<Entry> entries_;
  std::vector<List> lists_;
};

// A field's value as TOML, and what kind of value it holds ("whole number") for people.
std::string to_toml_value(const OptionSet::Field& field);
std::string_view type_name(const OptionSet::Field& field);

// What an option's rules allow: "from 0 to 256", "above 0", "\"idx\" or \"cifar10\""; empty if
// anything.
std::string allowed_values(const OptionSet::Entry& entry);

// Text as a TOML string, quotes included; control characters are escaped.
std::string quote_toml(std::string_view text);

// Options whose values differ between two sets of the same description.
struct OptionChange {
  std::string key;
  std::string before;
  std::string after;
  OnResume on_resume;
};
std::vector<OptionChange> changed_options(const OptionSet& before, const OptionSet& after);

}  // namespace tern
