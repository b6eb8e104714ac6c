#include "program/torch_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tern {
namespace {

static_assert(std::endian::native == std::endian::little, "what PyTorch sends is little-endian");

// What a client sends first: a byte and this number.
constexpr uint32_t kMagic = 0x3C85F7CE;

// PyTorch's numbers, of 2.1 and later.
enum class Query : uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  count = 7,
  remove = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_length = 16,
  list_keys = 17,
};

// What a piece in a queue takes beside its bytes; that of a new queue is about 0.7 KB.
constexpr size_t kPieceBytes = 1'024;
// A larger buffer is given back when it is empty.
constexpr size_t kKeptBytes = 64 << 10;

constexpr char kReady = 0;
constexpr char kNotReady = 1;
constexpr char kStopWaiting = 0;
constexpr char kWaitCanceled = 1;

template <typename T>
void append(Bytes& bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

void append_text(Bytes& bytes, BytesView text) {
  append(bytes, static_cast<uint64_t>(text.size()));
  bytes.append(text);
}

void give_back(Bytes& buffer) {
  if (buffer.empty() && buffer.capacity() > kKeptBytes) Bytes().swap(buffer);
}

}  // namespace

// Takes the parts of one request from what has arrived. Where something is not there yet every
// later part is empty.
class TorchStore::Request {
 public:
  Request(BytesView bytes, const Limits& limits) : rest_(bytes), limits_(limits) {}

  bool is_whole() const { return !is_short_ && status_.has_value(); }
  // A size that is not allowed.
  const Status& status() const { return status_; }
  size_t left() const { return rest_.size(); }

  template <typename T>
  T number() {
    T value{};
    const BytesView taken = take(sizeof value);
    if (taken.size() == sizeof value) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  BytesView key() { return text(limits_.keys.key_bytes); }
  BytesView value() { return text(limits_.message_bytes); }
  // Parts of the input.
  std::vector<BytesView> keys() {
    std::vector<BytesView> keys;
    const uint64_t count = count_of_keys();
    for (uint64_t i = 0; i < count && is_whole(); ++i) keys.emplace_back(key());
    return keys;
  }
  uint64_t count_of_keys() {
    const auto count = number<uint64_t>();
    if (count > limits_.keys.keys) refuse(count, limits_.keys.keys, "keys");
    return count;
  }

 private:
  BytesView text(size_t limit) {
    const auto size = number<uint64_t>();
    if (size > limit) refuse(size, limit, "bytes");
    return take(size);
  }
  void refuse(uint64_t size, size_t limit, const char* what) {
    if (!status_) return;
    status_ =
        fail(Code::exhausted, fmt::format("a request of {} {}; {} are allowed", size, what, limit));
  }
  BytesView take(uint64_t count) {
    if (!is_whole() || count > rest_.size()) {
      is_short_ = true;
      return {};
    }
    const BytesView taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  BytesView rest_;
  const Limits& limits_;
  bool is_short_ = false;
  Status status_;
};

uint64_t TorchStore::open(Nanoseconds now) {
  const uint64_t id = ++last_id_;
  connections_[id].opened_at = now;
  if (connections_.size() > setup_.limits.connections) {
    condemn(id, fmt::format("there are {} others", setup_.limits.connections));
  }
  return id;
}

void TorchStore::receive(uint64_t id, BytesView bytes, Nanoseconds /*now*/) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  connection.input.append(bytes);
  size_t used = 0;
  Result<bool> taken = true;
  // A few bytes may ask for many: each answer is looked at before the next is made.
  while (taken && *taken && connection.output.size() <= setup_.limits.output_bytes) {
    taken = take_request(connection, used);
  }
  connection.input.erase(0, used);
  give_back(connection.input);
  if (!taken) {
    condemn(id, taken.error().message);
  } else if (connection.output.size() > setup_.limits.output_bytes) {
    condemn(id, "it does not read its answers");
  } else if (connection.input.size() > setup_.limits.message_bytes) {
    condemn(id, fmt::format("a request of more than {} bytes", setup_.limits.message_bytes));
  }
}

void TorchStore::close(uint64_t id, Nanoseconds /*now*/, End /*end*/) { connections_.erase(id); }

void TorchStore::tick(Nanoseconds now) {
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (!connection.is_known && now - connection.opened_at > setup_.limits.hello)
      late.push_back(id);
  }
  for (const uint64_t id : late) condemn(id, "it said nothing");
}

Bytes* TorchStore::output(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second.output;
}

std::vector<uint64_t> TorchStore::take_condemned(Nanoseconds /*now*/) {
  bound_buffers();
  return std::exchange(condemned_, {});
}

void TorchStore::bound_buffers() {
  size_t all = 0;
  size_t most = 0;
  uint64_t holder = 0;
  for (auto& [id, connection] : connections_) {
    give_back(connection.output);
    const size_t held = connection.input.capacity() + connection.output.capacity();
    all += held;
    if (held > most) holder = id;
    most = std::max(most, held);
  }
  if (all > setup_.limits.buffered_bytes) {
    condemn(holder, fmt::format("all requests and answers take {} bytes, and most of them its own; "
                                "{} are allowed",
                                all, setup_.limits.buffered_bytes));
  }
}

void TorchStore::condemn(uint64_t id, const std::string& why) {
  if (connections_.erase(id) == 0) return;
  condemned_.push_back(id);
  if (setup_.on_refused) setup_.on_refused(why);
}

Result<bool> TorchStore::take_request(Connection& connection, size_t& used) {
  Request request(BytesView(connection.input).substr(used), setup_.limits);
  const auto query = request.number<uint8_t>();
  if (!request.is_whole()) return false;
  if (!connection.is_known) {
    const auto magic = request.number<uint32_t>();
    // The first byte tells a stranger already, who may wait for an answer.
    if (query != static_cast<uint8_t>(Query::validate) || (request.is_whole() && magic != kMagic)) {
      return fail(Code::invalid, "its first bytes are not those of PyTorch 2.1 or later");
    }
    connection.is_known = request.is_whole();
    if (connection.is_known) was_used_ = true;
  } else {
    RETURN_IF_ERROR(obey(connection, query, request));
  }
  RETURN_IF_ERROR(request.status());
  if (!request.is_whole()) return false;
  used = connection.input.size() - request.left();
  return true;
}

// Each does nothing unless the request is whole.
Status TorchStore::obey(Connection& connection, uint8_t query, Request& request) {
  switch (static_cast<Query>(query)) {
    case Query::set:
    case Query::compare_set:
    case Query::get:
    case Query::add:
    case Query::remove:
    case Query::append: return obey_for_key(connection, query, request);
    case Query::check:
    case Query::wait:
    case Query::multi_get:
    case Query::multi_set: return obey_for_many(connection, query, request);
    case Query::queue_push:
    case Query::queue_pop:
    case Query::queue_length: return obey_for_queue(connection, query, request);
    case Query::cancel_wait:
      connection.awaited.clear();
      connection.output.push_back(kWaitCanceled);
      return {};
    case Query::ping: {
      const auto nonce = request.number<uint32_t>();
      if (request.is_whole()) append(connection.output, nonce);
      return {};
    }
    case Query::count: append(connection.output, keys_.count()); return {};
    case Query::list_keys:
      append(connection.output, keys_.count());
      for (const Bytes& key : keys_.names()) append_text(connection.output, key);
      return {};
    default:
      return fail(Code::invalid,
                  fmt::format("request {} is not known; is it a newer PyTorch?", query));
  }
}

Status TorchStore::obey_for_key(Connection& connection, uint8_t query, Request& request) {
  Bytes& output = connection.output;
  const BytesView key = request.key();
  switch (static_cast<Query>(query)) {
    case Query::set: {
      const BytesView value = request.value();
      return request.is_whole() ? set(key, value) : Status();
    }
    case Query::append: {
      const BytesView more = request.value();
      if (!request.is_whole()) return {};
      RETURN_IF_ERROR(keys_.append(key, more));
      tell_set(key);
      return {};
    }
    case Query::compare_set: {
      const BytesView expected = request.value();
      const BytesView desired = request.value();
      if (!request.is_whole()) return {};
      ASSIGN_OR_RETURN(const Bytes value, keys_.compare_set(key, expected, desired));
      append_text(output, value);
      if (keys_.find(key) != nullptr) tell_set(key);
      return {};
    }
    case Query::add: {
      const auto amount = request.number<int64_t>();
      if (!request.is_whole()) return {};
      ASSIGN_OR_RETURN(const int64_t sum, keys_.add(key, amount));
      append(output, sum);
      tell_set(key);
      return {};
    }
    case Query::remove:
      if (request.is_whole()) append(output, int64_t{keys_.remove(key) ? 1 : 0});
      return {};
    default:
      if (request.is_whole()) append_text(output, value_of(key));
      return {};
  }
}

Status TorchStore::obey_for_many(Connection& connection, uint8_t query, Request& request) {
  Bytes& output = connection.output;
  if (static_cast<Query>(query) == Query::multi_set) {
    const uint64_t count = request.count_of_keys();
    std::vector<std::pair<BytesView, BytesView>> pairs;
    for (uint64_t i = 0; i < count && request.is_whole(); ++i) {
      const BytesView key = request.key();
      pairs.emplace_back(key, request.value());
    }
    if (!request.is_whole()) return {};
    for (const auto& [key, value] : pairs) RETURN_IF_ERROR(set(key, value));
    return {};
  }
  const std::vector<BytesView> keys = request.keys();
  if (!request.is_whole()) return {};
  switch (static_cast<Query>(query)) {
    case Query::check: {
      const bool are_there = std::ranges::all_of(keys, [this](BytesView key) { return has(key); });
      output.push_back(are_there ? kReady : kNotReady);
      return {};
    }
    case Query::wait: wait_for(connection, keys); return {};
    default:
      for (const BytesView key : keys) {
        append_text(output, value_of(key));
        // The answer to a small request may be large.
        if (output.size() > setup_.limits.output_bytes) return {};
      }
      return {};
  }
}

Status TorchStore::obey_for_queue(Connection& connection, uint8_t query, Request& request) {
  const BytesView key = request.key();
  if (static_cast<Query>(query) == Query::queue_push) {
    const BytesView value = request.value();
    if (!request.is_whole()) return {};
    const size_t bytes = key.size() + value.size() + kPieceBytes;
    if (queued_bytes_ + bytes > setup_.limits.queued_bytes) {
      return fail(Code::exhausted, fmt::format("its queues would hold more than {} bytes",
                                               setup_.limits.queued_bytes));
    }
    queued_bytes_ += bytes;
    auto found = queues_.find(key);
    if (found == queues_.end()) found = queues_.emplace(key, std::deque<Bytes>()).first;
    found->second.emplace_back(value);
    tell_pushed(key);
    return {};
  }
  if (!request.is_whole()) return {};
  const auto found = queues_.find(key);
  append(connection.output,
         static_cast<int64_t>(found == queues_.end() ? 0 : found->second.size()));
  if (static_cast<Query>(query) == Query::queue_length || found == queues_.end()) return {};
  append_text(connection.output, found->second.front());
  queued_bytes_ -= key.size() + found->second.front().size() + kPieceBytes;
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return {};
}

void TorchStore::wait_for(Connection& connection, const std::vector<BytesView>& keys) {
  connection.awaited.clear();
  for (const BytesView key : keys) {
    if (!has(key)) connection.awaited.emplace(key);
  }
  connection.waits_since = ++last_wait_;
  if (connection.awaited.empty()) connection.output.push_back(kStopWaiting);
}

BytesView TorchStore::value_of(BytesView key) const {
  const Bytes* const value = keys_.find(key);
  return value == nullptr ? BytesView() : BytesView(*value);
}

Status TorchStore::set(BytesView key, BytesView value) {
  RETURN_IF_ERROR(keys_.set(key, value));
  tell_set(key);
  return {};
}

bool TorchStore::has(BytesView key) const {
  return keys_.find(key) != nullptr || queues_.contains(key);
}

void TorchStore::tell_set(BytesView key) {
  for (auto& [id, connection] : connections_) {
    const auto found = connection.awaited.find(key);
    if (found == connection.awaited.end()) continue;
    // A queue that it waits for, too, may have got something meanwhile.
    std::erase_if(connection.awaited, [this](const Bytes& awaited) { return has(awaited); });
    if (connection.awaited.empty()) connection.output.push_back(kStopWaiting);
  }
}

// What was pushed is for one alone: for the one that waits longest.
void TorchStore::tell_pushed(BytesView key) {
  Connection* first = nullptr;
  for (auto& [id, connection] : connections_) {
    const bool waits = connection.awaited.size() == 1 && *connection.awaited.begin() == key;
    if (waits && (first == nullptr || connection.waits_since < first->waits_since)) {
      first = &connection;
    }
  }
  if (first == nullptr) return;
  first->awaited.clear();
  first->output.push_back(kStopWaiting);
}

}  // namespace tern
