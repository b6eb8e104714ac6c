#include "cli/doctor_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cloud/create_only.h"

namespace tern {
namespace {

constexpr char kText[] = "written by tern doctor, may be removed\n";

StoreTrial attempt(std::string what, Clock& clock, const std::function<Status()>& act) {
  StoreTrial trial{.what = std::move(what)};
  const Nanoseconds begin = clock.now();
  if (const Status done = act(); !done) trial.error = done.error();
  trial.ms = to_seconds(clock.now() - begin) * 1e3;
  return trial;
}

StoreTrial not_tried(std::string what) { return {.what = std::move(what), .was_tried = false}; }

Status read_back(ObjectStore& store, const std::string& name) {
  ASSIGN_OR_RETURN(const Bytes text, store.get(name));
  ASSIGN_OR_RETURN(const Bytes part, store.get_range(name, 8, 2));
  if (text == kText && part == std::string(kText).substr(8, 2)) return {};
  return fail(Code::corrupt,
              "what was written reads otherwise; is this address that of an object store?");
}

// Of who may not read, a store says that and not what is there. REQUIRES: it can be listed, so that
// there is a bucket.
Status read_nothing(ObjectStore& store, const std::string& absent) {
  const Result<Bytes> got = store.get(absent);
  if (got || got.error().code == Code::not_found) return {};
  return got.error();
}

bool works(const StoreTrial& trial) { return trial.was_tried && !trial.error; }

}  // namespace

std::vector<StoreTrial> try_store(ObjectStore& store, Clock& clock,
                                  const std::function<void(const StoreTrial&)>& tell) {
  const std::string name = fmt::format("tern-doctor-{}-{}", ::getpid(), clock.unix_ms());
  std::vector<StoreTrial> trials;
  const auto add = [&](StoreTrial trial) {
    trials.push_back(std::move(trial));
    tell(trials.back());
  };
  add(attempt("list", clock, [&] {
    // A listing of everything may be long: of a name that nobody has it is not.
    const auto listed = store.list(name);
    return listed ? Status() : Status(listed.error());
  }));
  // One that does not answer at all need not be waited for again.
  const bool is_away = trials[0].error && trials[0].error->code == Code::unavailable;
  add(is_away ? not_tried("write")
              : attempt("write", clock, [&] { return store.put(name, kText); }));
  if (is_away || trials.back().error) {
    // Data may be read where nothing can be written.
    add(trials[0].error ? not_tried("read")
                        : attempt("read", clock, [&] { return read_nothing(store, name); }));
    for (const char* what : {"create-only", "remove"}) add(not_tried(what));
    return trials;
  }
  add(attempt("read", clock, [&] { return read_back(store, name); }));
  add(attempt("create-only", clock, [&] { return check_create_only(store); }));
  add(attempt("remove", clock, [&] { return store.remove(name); }));
  return trials;
}

bool can_keep_runs(const StoreFindings& findings) {
  return std::ranges::all_of(findings.trials, works);
}

bool can_read_data(const StoreFindings& findings) {
  return std::ranges::all_of(findings.trials, [](const StoreTrial& trial) {
    return works(trial) || (trial.what != "list" && trial.what != "read");
  });
}

std::string describe_store(const StoreFindings& findings) {
  std::string text = fmt::format("{}\n", findings.address);
  if (!findings.credentials.empty()) {
    text += fmt::format("{:13}{}\n", "credentials", findings.credentials);
  }
  return text;
}

std::string describe_trial(const StoreTrial& trial) {
  if (!trial.was_tried) return fmt::format("{:13}not tried\n", trial.what);
  if (trial.error) return fmt::format("{:13}FAILS: {}\n", trial.what, trial.error->message);
  return fmt::format("{:13}works{:8.0f} ms\n", trial.what, trial.ms);
}

std::string describe_store_verdict(const StoreFindings& findings) {
  if (can_keep_runs(findings)) return "Runs and data can be kept here.\n";
  return fmt::format(
      "{} cannot be kept here until that is mended; docs/stores.md lists the least rights that are "
      "needed.\n",
      can_read_data(findings) ? "Data can be read here; runs" : "Runs");
}

nlohmann::json store_findings_json(const StoreFindings& findings) {
  nlohmann::json trials = nlohmann::json::object();
  for (const StoreTrial& trial : findings.trials) {
    nlohmann::json entry = {{"works", works(trial)}, {"ms", trial.ms}};
    if (!trial.was_tried) entry["ms"] = nullptr;
    entry["problem"] = nullptr;
    if (trial.error) entry["problem"] = trial.error->to_string();
    trials[trial.what] = std::move(entry);
  }
  return {{"address", findings.address},
          {"credentials", findings.credentials},
          {"can_keep_runs", can_keep_runs(findings)},
          {"can_read_data", can_read_data(findings)},
          {"trials", std::move(trials)}};
}

}  // namespace tern
