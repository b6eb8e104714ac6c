#include "cli/run_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "cli/store_copy.h"
#include "train/run_place.h"

namespace tern {
namespace {

std::string mark_of(const RunCopySetup& setup) {
  return fmt::format(
      "it is a copy of {} that was not finished; `tern run copy {} {}` goes on, or "
      "remove it\n",
      setup.from_name, setup.from_name, setup.to_name);
}

// What belongs to the place and not to the run.
bool stays(const std::string& name) {
  return name == kUnfinishedObject || name == kCreateOnlyObject;
}

Result<std::vector<ObjectInfo>> objects_of(ObjectStore& run) {
  ASSIGN_OR_RETURN(std::vector<ObjectInfo> objects, run.list(""));
  std::erase_if(objects, [](const ObjectInfo& object) { return stays(object.name); });
  return objects;
}

// `to` must be empty, or hold what this copy left.
Status claim(const RunCopySetup& setup) {
  const std::string mark = mark_of(setup);
  const Result<Bytes> there = setup.to->get(kUnfinishedObject);
  if (there && *there == mark) return {};
  if (!there && there.error().code != Code::not_found) return there.error().at(setup.to_name);
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, objects_of(*setup.to));
  if (there || !objects.empty()) {
    return fail(
        Code::failed_precondition,
        fmt::format("{} is not empty: it holds {}; give the copy a place of its own", setup.to_name,
                    there ? "another copy that was not finished" : objects[0].name));
  }
  Status claimed = setup.to->create(kUnfinishedObject, mark);
  if (!claimed && claimed.error().code == Code::already_exists) {
    return fail(Code::failed_precondition,
                fmt::format("{}: another copy into it has begun at the same moment; give this one "
                            "a place of its own, or run it again when the other is over",
                            setup.to_name));
  }
  RETURN_IF_ERROR(std::move(claimed).at(setup.to_name));
  // One that began and ended since the look above has left a run.
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> since, objects_of(*setup.to));
  if (since.empty()) return {};
  RETURN_IF_ERROR(setup.to->remove(kUnfinishedObject).at(setup.to_name));
  return fail(Code::failed_precondition,
              fmt::format("{}: another copy into it has just ended; give this one a place of its "
                          "own",
                          setup.to_name));
}

// When it is copied: what makes it a run comes last.
size_t turn_of(const ObjectInfo& object) {
  if (holds_run(std::vector{object})) return object.name.starts_with("checkpoints/") ? 1 : 2;
  return 0;
}

Result<bool> is_equal(const RunCopySetup& setup, const ObjectBytes& bytes,
                      const std::string& name) {
  const Result<ObjectInfo> there = setup.to->stat(name);
  if (!there && there.error().code != Code::not_found) return there.error();
  if (!there || there->size_bytes != static_cast<int64_t>(bytes.view().size())) return false;
  ASSIGN_OR_RETURN(const auto copy, ObjectBytes::open(*setup.to, *there, setup.move, setup.stop));
  return bytes.equals(*copy);
}

Status copy_verified(const RunCopySetup& setup, const ObjectInfo& object,
                     std::atomic<int64_t>& there_before) {
  ASSIGN_OR_RETURN(const auto source,
                   ObjectBytes::open(*setup.from, object, setup.move, setup.stop));
  ASSIGN_OR_RETURN(const bool is_there, is_equal(setup, *source, object.name));
  if (is_there) {
    ++there_before;
    return {};
  }
  RETURN_IF_ERROR(setup.to->put(object.name, source->view()));
  ASSIGN_OR_RETURN(const bool is_copied, is_equal(setup, *source, object.name));
  if (is_copied) return {};
  return fail(Code::corrupt, fmt::format("{} was written to {} and reads otherwise; try again, and "
                                         "do not trust that store if it happens again",
                                         object.name, setup.to_name));
}

// What an earlier attempt copied and the run has dropped since.
Status remove_others(const RunCopySetup& setup, const std::vector<ObjectInfo>& objects) {
  std::set<std::string> names;
  for (const ObjectInfo& object : objects) names.insert(object.name);
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> there, objects_of(*setup.to));
  std::vector<std::string> others;
  for (const ObjectInfo& object : there) {
    if (!names.contains(object.name)) others.push_back(object.name);
  }
  return setup.to->remove_all(others);
}

}  // namespace

Result<int64_t> run_bytes(ObjectStore& run) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, objects_of(run));
  int64_t bytes = 0;
  for (const ObjectInfo& object : objects) bytes += object.size_bytes;
  return bytes;
}

Result<RunCopyResult> copy_run(const RunCopySetup& setup, const OnBytes& on_bytes) {
  RETURN_IF_ERROR(claim(setup));
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, objects_of(*setup.from));
  std::array<std::vector<CopyItem>, 3> turns;
  RunCopyResult result{.objects = std::ssize(objects)};
  for (const ObjectInfo& object : objects) {
    turns[turn_of(object)].push_back({object, object.name});
    result.bytes += object.size_bytes;
  }
  std::atomic<int64_t> there_before = 0;
  const CopySetup copy{.from = setup.from,
                       .to = setup.to,
                       .move = setup.move,
                       .stop = setup.stop,
                       .copy_one = [&](const CopyItem& item) {
                         const Status copied = copy_verified(setup, item.from, there_before);
                         if (copied && on_bytes) on_bytes(item.from.size_bytes);
                         return copied ? copied : Status(copied.error().at("copy " + item.to));
                       }};
  for (const std::vector<CopyItem>& turn : turns) RETURN_IF_ERROR(copy_objects(copy, turn));
  RETURN_IF_ERROR(remove_others(setup, objects));
  result.there_before = there_before;
  return result;
}

Status finish_copy(const RunCopySetup& setup) { return setup.to->remove(kUnfinishedObject); }

}  // namespace tern
