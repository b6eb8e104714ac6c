#include "cli/checkpoint_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/run_list.h"
#include "core/clock.h"
#include "core/progress.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"
#include "train/train_state.h"

namespace tern {
namespace {

using nlohmann::json;

// Nothing if retention dropped the checkpoint while its blobs were being read.
Result<std::optional<std::string>> find_damage(ObjectStore& store, const SequenceRecord& record) {
  const Status verified = verify_blobs(store, record);
  if (verified) return std::optional<std::string>("");
  if (verified.error().code != Code::corrupt) return verified.error();
  const Result<SequenceRecord> now = read_record(store, record.number);
  if (now && now->kind == RecordKind::pruned) return std::optional<std::string>();
  return std::optional<std::string>(verified.error().message);
}

ListedCheckpoint describe(const SequenceRecord& record) {
  ListedCheckpoint checkpoint{
      .number = record.number, .unix_ms = record.unix_ms, .best = record.best};
  for (const Blob& blob : record.blobs) checkpoint.bytes += blob.size_bytes;
  if (const Result<CheckpointText> text = parse_state(record.state)) {
    checkpoint.step = text->state.step;
  } else {
    checkpoint.damage =
        fmt::format("another version of tern wrote it: {}; use that one", text.error().message);
  }
  return checkpoint;
}

// The rules are those of Sequence::prune(). REQUIRES: lowest number first.
void say_why_kept(std::vector<ListedCheckpoint>& list, int64_t keep) {
  bool best_is_found = false;
  int64_t newer = 0;
  for (auto it = list.rbegin(); it != list.rend(); ++it, ++newer) {
    it->best = it->best && !best_is_found;
    best_is_found = best_is_found || it->best;
    const std::string newest = keep == 1 ? "the newest" : fmt::format("among the newest {}", keep);
    if (newer < keep) it->kept_because = it->best ? "the best, " + newest : newest;
    if (newer >= keep)
      it->kept_because = it->best ? "the best" : "not needed: the next save drops it";
  }
}

std::string format_when(int64_t unix_ms) {
  std::string text = format_utc(unix_ms).substr(0, sizeof "2026-03-01T12:34:56" - 1);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

}  // namespace

Result<std::vector<ListedCheckpoint>> list_run_checkpoints(ObjectStore& run, Verify verify) {
  PrefixStore store(run, "checkpoints");
  ASSIGN_OR_RETURN(const CheckpointList found, list_checkpoints(store));
  std::vector<ListedCheckpoint> list;
  for (const SequenceRecord& record : found.checkpoints) {
    ListedCheckpoint checkpoint = describe(record);
    if (verify == Verify::yes) {
      ASSIGN_OR_RETURN(const std::optional<std::string> damage, find_damage(store, record));
      if (!damage) continue;
      if (!damage->empty()) checkpoint.damage = *damage;
    }
    list.push_back(std::move(checkpoint));
  }
  say_why_kept(list, std::max<int64_t>(1, recorded_options(run).checkpoint.keep));
  for (const Damage& damage : found.damaged) {
    list.push_back({.number = damage.number,
                    .kept_because = "damaged: never dropped",
                    .damage = damage.error.message});
  }
  std::ranges::sort(list, {}, &ListedCheckpoint::number);
  return list;
}

bool any_is_damaged(const std::vector<ListedCheckpoint>& list) {
  return std::ranges::any_of(list, [](const auto& each) { return !each.damage.empty(); });
}

std::string format_checkpoints(const std::vector<ListedCheckpoint>& list, const std::string& name,
                               Verify verify) {
  std::vector<std::vector<std::string>> rows = {
      {"number", "step", "written (UTC)", "size", "kept as"}};
  std::optional<int64_t> newest;
  for (const ListedCheckpoint& each : list) {
    const std::string number = std::to_string(each.number);
    const std::string step = each.step ? std::to_string(*each.step) : "-";
    if (each.damage.empty()) {
      newest = each.step;
      rows.push_back(
          {number, step, format_when(each.unix_ms), format_bytes(each.bytes), each.kept_because});
    } else {
      rows.push_back({number, step, "damaged: " + each.damage});
    }
  }
  if (list.empty()) {
    return fmt::format(
        "{} has no checkpoint yet; a run saves the first one after "
        "checkpoint.every, or when it is told to leave\n",
        name);
  }
  std::string text = format_table(rows, "rrlrl");
  if (verify == Verify::yes && !any_is_damaged(list)) text += "\nAll of them are whole.\n";
  if (newest) {
    text +=
        fmt::format("\nBranch from one: tern train FILE --from {}@{} --run NEW\n", name, *newest);
  } else {
    text += "\nNone of them can be used; the same command again starts at step 0.\n";
  }
  return text;
}

json checkpoints_json(const std::vector<ListedCheckpoint>& list) {
  json all = json::array();
  for (const ListedCheckpoint& each : list) {
    const bool is_read = each.unix_ms != 0;
    all.push_back({{"number", each.number},
                   {"step", each.step ? json(*each.step) : json(nullptr)},
                   {"ms", is_read ? json(each.unix_ms) : json(nullptr)},
                   {"bytes", is_read ? json(each.bytes) : json(nullptr)},
                   {"best", each.best},
                   {"kept_because", each.kept_because},
                   {"damage", each.damage.empty() ? json(nullptr) : json(each.damage)}});
  }
  return all;
}

}  // namespace tern
