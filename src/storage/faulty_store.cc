#include "storage/faulty_store.h"

#include <fmt/format.h>

#include <utility>

namespace tern {
namespace {

void run(const FaultyStore::Hook& hook) {
  if (hook) hook();
}

Error injected(std::string_view verb, const std::string& name) {
  return fail(Code::unavailable,
              fmt::format("injected fault in {} {}; the test asked for it", verb, name));
}

// The faults that mean the same for all verbs, once `tear` and `lose` were dealt with or stand for
// fail_before.
template <typename Request>
auto strike(Fault fault, const FaultyStore::Hook& hook, std::string_view verb,
            const std::string& name, Request request) -> decltype(request()) {
  switch (fault) {
    case Fault::fail_after: {
      const auto result = request();
      run(hook);
      break;  // whatever it was, the reply is lost
    }
    case Fault::delay: run(hook); return request();
    case Fault::duplicate: {
      auto first = request();
      const auto second = request();
      run(hook);
      return first;
    }
    case Fault::fail_before:
    case Fault::tear:
    case Fault::lose: run(hook); break;
  }
  return injected(verb, name);
}

}  // namespace

void FaultyStore::inject(int64_t number, Fault fault, Hook instead_of_failing) {
  MutexLock lock(mutex_);
  plans_.insert_or_assign(number, Plan{fault, std::move(instead_of_failing)});
}

void FaultyStore::inject_delay(int64_t number, Clock& clock, Nanoseconds duration) {
  inject(number, Fault::delay, [&clock, duration] { clock.wait_for(duration, {}); });
}

int64_t FaultyStore::requests() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(history_.size());
}

std::vector<std::string> FaultyStore::history() const {
  MutexLock lock(mutex_);
  return history_;
}

std::optional<FaultyStore::Plan> FaultyStore::next(std::string_view verb, const std::string& name) {
  MutexLock lock(mutex_);
  history_.push_back(fmt::format("{} {}", verb, name));
  const auto found = plans_.find(static_cast<int64_t>(history_.size()));
  if (found == plans_.end()) return std::nullopt;
  return found->second;
}

template <typename Request>
auto FaultyStore::perform(std::string_view verb, const std::string& name, Request request)
    -> decltype(request()) {
  const std::optional<Plan> plan = next(verb, name);
  if (!plan) return request();
  return strike(plan->fault, plan->hook, verb, name, request);
}

template <typename Request>
Status FaultyStore::perform_write(std::string_view verb, const std::string& name, BytesView bytes,
                                  Request request) {
  const std::optional<Plan> plan = next(verb, name);
  if (!plan) return request(bytes);
  if (plan->fault == Fault::lose) {
    run(plan->hook);
    return {};
  }
  if (plan->fault == Fault::tear) {
    const Status torn = request(bytes.substr(0, bytes.size() / 2));
    run(plan->hook);
    return injected(verb, name);
  }
  return strike(plan->fault, plan->hook, verb, name, [&] { return request(bytes); });
}

Result<Bytes> FaultyStore::get(const std::string& name) {
  return perform("get", name, [&] { return inner_.get(name); });
}

Result<Bytes> FaultyStore::get_range(const std::string& name, int64_t offset, int64_t length) {
  return perform("get_range", name, [&] { return inner_.get_range(name, offset, length); });
}

Status FaultyStore::put(const std::string& name, BytesView bytes) {
  return perform_write("put", name, bytes, [&](BytesView b) { return inner_.put(name, b); });
}

Status FaultyStore::create(const std::string& name, BytesView bytes) {
  return perform_write("create", name, bytes, [&](BytesView b) { return inner_.create(name, b); });
}

Result<ObjectInfo> FaultyStore::stat(const std::string& name) {
  return perform("stat", name, [&] { return inner_.stat(name); });
}

Result<std::vector<ObjectInfo>> FaultyStore::list(const std::string& prefix) {
  return perform("list", prefix, [&] { return inner_.list(prefix); });
}

Status FaultyStore::remove(const std::string& name) {
  // A removal can be lost but not torn: with no bytes its half is nothing.
  const std::optional<Plan> plan = next("remove", name);
  if (!plan) return inner_.remove(name);
  if (plan->fault == Fault::lose) {
    run(plan->hook);
    return {};
  }
  return strike(plan->fault, plan->hook, "remove", name, [&] { return inner_.remove(name); });
}

std::optional<std::filesystem::path> FaultyStore::local_path(const std::string& name) const {
  return inner_.local_path(name);
}

}  // namespace tern
