#include "storage/retry_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/random.h"

namespace tern {
namespace {

bool may_work_in_a_moment(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::deadline_exceeded;
}

Error gave_up(const Error& last, int attempts, Nanoseconds elapsed) {
  return Error{last.code, fmt::format("{}; gave up after {} attempts in {:.1f} s", last.message,
                                      attempts, to_seconds(elapsed))};
}

}  // namespace

RetryStore::RetryStore(ObjectStore& inner, RetryOptions options, Clock& clock, uint64_t seed,
                       std::stop_token stop)
    : inner_(inner), options_(options), clock_(clock), seed_(seed), stop_(std::move(stop)) {}

template <typename Request>
auto RetryStore::retry(Request request) -> decltype(request()) {
  const Nanoseconds begin = clock_.now();
  for (int attempts = 1;; ++attempts) {
    auto result = request();
    if (result.has_value() || !may_work_in_a_moment(result.error())) return result;

    const Nanoseconds elapsed = clock_.now() - begin;
    const Nanoseconds delay = delay_after(attempts);
    const bool is_last = attempts >= options_.attempts_max || elapsed + delay > options_.total_max;
    if (is_last || !clock_.wait_for(delay, stop_)) {
      return gave_up(result.error(), attempts, elapsed);
    }
  }
}

Nanoseconds RetryStore::delay_after(int attempts) {
  const int doublings = std::min(attempts - 1, 30);
  const int64_t full_ns = std::min(Nanoseconds(options_.first_delay).count() << doublings,
                                   Nanoseconds(options_.delay_max).count());
  const uint64_t number = delays_drawn_++;
  const auto random =
      philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  const double fraction = 0.5 + 0.5 * (random[0] * 0x1.0p-32);
  return Nanoseconds(static_cast<int64_t>(static_cast<double>(full_ns) * fraction));
}

Result<Bytes> RetryStore::get(const std::string& name) {
  return retry([&] { return inner_.get(name); });
}

Result<Bytes> RetryStore::get_range(const std::string& name, int64_t offset, int64_t length) {
  return retry([&] { return inner_.get_range(name, offset, length); });
}

std::vector<Result<Bytes>> RetryStore::get_ranges(std::span<const ObjectRange> ranges) {
  std::vector<Result<Bytes>> all = inner_.get_ranges(ranges);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] || !may_work_in_a_moment(all[i].error())) continue;
    all[i] = get_range(ranges[i].name, ranges[i].offset, ranges[i].length);
  }
  return all;
}

Status RetryStore::put(const std::string& name, BytesView bytes) {
  return retry([&] { return inner_.put(name, bytes); });
}

Status RetryStore::create(const std::string& name, BytesView bytes) {
  int attempts = 0;
  const Status created = retry([&] {
    ++attempts;
    return inner_.create(name, bytes);
  });
  if (created || created.error().code != Code::already_exists || attempts == 1) return created;
  // An earlier attempt may have succeeded without our hearing of it.
  const Result<Bytes> stored = get(name);
  if (stored && *stored == bytes) return {};
  if (stored) return created;
  if (stored.error().code != Code::not_found)
    return stored.error().at("read back what was created");
  return fail(Code::aborted,
              fmt::format("'{}' was removed while it was created; start again", name));
}

Result<ObjectInfo> RetryStore::stat(const std::string& name) {
  return retry([&] { return inner_.stat(name); });
}

Result<std::vector<ObjectInfo>> RetryStore::list(const std::string& prefix) {
  return retry([&] { return inner_.list(prefix); });
}

Status RetryStore::remove(const std::string& name) {
  return retry([&] { return inner_.remove(name); });
}

Status RetryStore::remove_all(std::span<const std::string> names) {
  return retry([&] { return inner_.remove_all(names); });
}

std::optional<std::filesystem::path> RetryStore::local_path(const std::string& name) const {
  return inner_.local_path(name);
}

}  // namespace tern
