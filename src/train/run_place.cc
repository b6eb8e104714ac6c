#include "train/run_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "cloud/create_only.h"
#include "report/accuracy_table.h"
#include "report/event_file.h"
#include "report/sampler.h"
#include "storage/ledger.h"
#include "storage/sequence_record.h"
#include "train/run_config.h"

namespace tern {
namespace {

constexpr std::string_view kCheckpoints = "checkpoints/";

bool is_ledger(std::string_view name) {
  return name == kLedgerObject || name.starts_with(std::string(kLedgerObject) + ".d/");
}

bool is_record(std::string_view name) {
  if (!name.starts_with(kCheckpoints)) return false;
  return record_number(std::string(name.substr(kCheckpoints.size()))).has_value();
}

bool is_of_a_run(std::string_view first, bool has_more) {
  constexpr std::string_view kFolders[] = {"checkpoints", "program", kTensorBoardFolder};
  constexpr std::string_view kObjects[] = {
      kRunFileObject,    kLedgerObject,     kMetricsObject,      kSamplesObject,
      kAccuracyObject,   "log.txt",         "report.json",       "classes.txt",
      kUnfinishedObject, kCreateOnlyObject, "model.safetensors", "best.safetensors"};
  if (!has_more) return std::ranges::find(kObjects, first) != std::end(kObjects);
  if (std::ranges::find(kFolders, first) != std::end(kFolders)) return true;
  // Where a record log is kept in pieces, they are in NAME.d.
  if (!first.ends_with(".d")) return false;
  first.remove_suffix(2);
  return std::ranges::find(kObjects, first) != std::end(kObjects);
}

}  // namespace

Result<bool> holds_run(ObjectStore& run) {
  for (const std::string& prefix : {std::string(kLedgerObject), std::string(kCheckpoints)}) {
    ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, run.list(prefix));
    if (holds_run(objects)) return true;
  }
  return false;
}

bool holds_run(const std::vector<ObjectInfo>& objects) {
  return std::ranges::any_of(objects, [](const ObjectInfo& object) {
    return is_ledger(object.name) || is_record(object.name);
  });
}

std::vector<std::string> foreign_names(const std::vector<ObjectInfo>& objects) {
  std::set<std::string> others;
  for (const ObjectInfo& object : objects) {
    const size_t slash = object.name.find('/');
    const std::string first = object.name.substr(0, slash);
    if (!is_of_a_run(first, slash != std::string::npos)) others.insert(first);
  }
  return {others.begin(), others.end()};
}

Status refuse_unfinished(ObjectStore& run, const std::string& name) {
  const Result<Bytes> text = run.get(kUnfinishedObject);
  if (!text) return text.error().code == Code::not_found ? Status() : Status(text.error().at(name));
  std::string why = text->substr(0, 500);
  while (why.ends_with('\n')) why.pop_back();
  return fail(Code::failed_precondition, fmt::format("{} is not whole: {}", name, why));
}

Status refuse_old_run(ObjectStore& run, const std::string& name) {
  Result<std::vector<ObjectInfo>> objects = run.list("");
  // No bucket yet: there is nothing to keep.
  if (!objects && objects.error().code == Code::not_found) return {};
  if (!objects) return objects.error().at(name);
  std::erase_if(*objects, [](const ObjectInfo& each) { return each.name == kCreateOnlyObject; });
  if (objects->empty()) return {};
  if (!holds_run(*objects)) {
    return fail(Code::failed_precondition,
                fmt::format("{} holds no run but {}, so --fresh does not touch it; give another "
                            "--run",
                            name, objects->front().name));
  }
  return fail(
      Code::failed_precondition,
      fmt::format("{0} holds a run, which --fresh would move aside in a folder and cannot in "
                  "a bucket. To keep it, `tern run copy {0} {0}.1`; then, or at once, `tern "
                  "rm {0}` and this command again. Or give the new run another --run",
                  name));
}

Result<std::unique_ptr<ObjectStore>> open_run(CloudDoor& door, const StoreAddress& place) {
  const std::string name = place.to_string();
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> run, door.open(place));
  RETURN_IF_ERROR(refuse_unfinished(*run, name));
  if (place.is_folder()) return run;
  ASSIGN_OR_RETURN(const bool is_there, holds_run(*run).at(name));
  if (is_there) return run;
  StoreAddress bucket = place;
  bucket.prefix.clear();
  return fail(Code::not_found,
              fmt::format("there is no run in {}; `tern ls {}` lists the runs that "
                          "are at the top of that bucket, `tern store ls {}` "
                          "everything",
                          name, bucket.to_string(), bucket.to_string()));
}

StoreOpener store_opener(CloudDoor& door) {
  return [&door](const std::string& text) -> Result<std::shared_ptr<ObjectStore>> {
    ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(text));
    ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> store, door.open(address));
    return std::shared_ptr<ObjectStore>(std::move(store));
  };
}

Status prepare_run_place(CloudDoor& door, const StoreAddress& place, ObjectStore& run,
                         MissingBucket missing) {
  if (place.is_folder()) return {};
  const std::string name = place.to_string();
  if (missing == MissingBucket::create) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bucket> bucket, door.open_bucket(place));
    RETURN_IF_ERROR(bucket->make_bucket().at(name));
  }
  const Result<Bytes> checked = run.get(kCreateOnlyObject);
  if (checked && *checked == name + "\n") return {};
  if (!checked && checked.error().code != Code::not_found) return checked.error().at(name);
  RETURN_IF_ERROR(check_create_only(run).at(name));
  return run.put(kCreateOnlyObject, name + "\n").at(name);
}

}  // namespace tern
