#include "cloud/create_only.h"

#include <fmt/format.h>

#include <barrier>
#include <thread>

#include "storage/holder.h"

namespace tern {
namespace {

constexpr int kTakers = 8;
constexpr int kRounds = 4;

constexpr const char* kInstead =
    "Checkpoints cannot be kept there, as two trainers could take the same run; use a store with "
    "atomic create-only writes instead: S3, Google Cloud Storage, Azure Blob, MinIO, Ceph, "
    "versitygw or a folder";

// What one taker writes; the lengths differ so that a mixture of two would show.
Bytes bytes_of(int taker) {
  return Bytes(64 + static_cast<size_t>(taker), static_cast<char>('a' + taker));
}

Error ignored() {
  return fail(Code::failed_precondition,
              fmt::format("the store ignores create-only writes: it replaced an object that was "
                          "already there. {}",
                          kInstead));
}

Status check_second_create(ObjectStore& store, const std::string& name) {
  RETURN_IF_ERROR(store.create(name, "first"));
  const Status second = store.create(name, "second");
  if (second) return ignored();
  if (second.error().code != Code::already_exists) return second;
  // A store may say no and replace all the same.
  ASSIGN_OR_RETURN(const Bytes bytes, store.get(name));
  return bytes == "first" ? Status() : ignored();
}

Status check_race(ObjectStore& store, const std::string& name) {
  std::vector<Status> said(kTakers);
  {
    std::barrier start(kTakers);
    std::vector<std::jthread> takers;
    for (int taker = 0; taker < kTakers; ++taker) {
      takers.emplace_back([&, taker] {
        start.arrive_and_wait();
        said[static_cast<size_t>(taker)] = store.create(name, bytes_of(taker));
      });
    }
  }
  int winners = 0;
  Bytes won;
  for (int taker = 0; taker < kTakers; ++taker) {
    const Status& status = said[static_cast<size_t>(taker)];
    if (status) {
      ++winners;
      won = bytes_of(taker);
    } else if (status.error().code != Code::already_exists) {
      return status;
    }
  }
  ASSIGN_OR_RETURN(const Bytes bytes, store.get(name));
  if (winners == 1 && bytes == won) return {};
  const std::string seen = winners == 1 ? "the object is not what the one winner wrote"
                                        : fmt::format("{} of {} had success", winners, kTakers);
  return fail(Code::failed_precondition,
              fmt::format("the store's create-only writes are not atomic: when {} raced for one "
                          "name, {}. {}",
                          kTakers, seen, kInstead));
}

}  // namespace

Status check_create_only(ObjectStore& store) {
  // The token is random: two machines that check at once do not meet.
  ASSIGN_OR_RETURN(const Holder me, this_process());
  const std::string folder = "tern-probe-" + me.token;
  std::vector<std::string> names;
  Status checked;
  for (int round = 0; round <= kRounds && checked; ++round) {
    names.push_back(fmt::format("{}/{}", folder, round));
    checked =
        round == 0 ? check_second_create(store, names.back()) : check_race(store, names.back());
  }
  const Status removed = store.remove_all(names);
  return checked ? removed : checked;
}

}  // namespace tern
