// What ranks ask of the keys.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ranks/rank_hub.h"

namespace tern {
namespace {

Bytes answer_with(int64_t request, const Result<Bytes>& result) {
  return result ? encode_answer(request, *result) : encode_answer(request, result.error());
}

Result<Bytes> number_or_error(const Result<int64_t>& number) {
  if (!number) return number.error();
  return encode_number(*number);
}

}  // namespace

Status RankHub::take_request(uint64_t id, Message message, FieldReader& fields, Nanoseconds now) {
  Connection& connection = connections_.at(id);
  const int64_t request = fields.number();
  if (message == Message::join) {
    RankJoin join = read_join(fields);
    RETURN_IF_ERROR(fields.finish());
    if (connection.join) return fail(Code::invalid, "it joins twice");
    connection.join = request;
    // What it still waits for is of the generation that it leaves.
    connection.is_over = connection.group.generation > 0;
    abort_waiting(connection);
    roster_.join(id, std::move(join), now);
    act(now);
    return {};
  }
  if (message == Message::get || message == Message::wait || message == Message::check) {
    return take_wait(connection, message, request, fields);
  }
  return take_key_request(connection, message, request, fields);
}

Status RankHub::take_key_request(Connection& connection, Message message, int64_t request,
                                 FieldReader& fields) {
  Result<Bytes> result = Bytes();
  if (message == Message::set) {
    const BytesView key = fields.text();
    const BytesView value = fields.text();
    RETURN_IF_ERROR(fields.finish());
    if (const Status done = keys_.set(key, value); !done.has_value()) result = done.error();
    keys_grew_ = true;
  } else if (message == Message::add) {
    const BytesView key = fields.text();
    const int64_t amount = fields.number();
    RETURN_IF_ERROR(fields.finish());
    result = number_or_error(keys_.add(key, amount));
    keys_grew_ = true;
  } else if (message == Message::compare_set) {
    const BytesView key = fields.text();
    const BytesView expected = fields.text();
    const BytesView desired = fields.text();
    RETURN_IF_ERROR(fields.finish());
    result = keys_.compare_set(key, expected, desired);
    keys_grew_ = true;
  } else if (message == Message::remove) {
    const BytesView key = fields.text();
    RETURN_IF_ERROR(fields.finish());
    result = encode_number(keys_.remove(key) ? 1 : 0);
  } else {  // count
    RETURN_IF_ERROR(fields.finish());
    result = encode_number(keys_.count());
  }
  connection.output += answer_with(request, result);
  return {};
}

Status RankHub::take_wait(Connection& connection, Message message, int64_t request,
                          FieldReader& fields) {
  const int64_t count = message == Message::get ? 1 : fields.number();
  // Each key takes at least its length: no more can be in the frame.
  if (count < 0 || count > static_cast<int64_t>(kFrameBytesMax / sizeof(uint32_t))) {
    return fail(Code::corrupt, "a number of keys that cannot be");
  }
  Waiting waiting{.request = request, .keys = {}, .wants_value = message == Message::get};
  for (int64_t i = 0; i < count && !fields.has_failed(); ++i) {
    waiting.keys.emplace_back(fields.text(kLineBytesMax));
  }
  RETURN_IF_ERROR(fields.finish());
  const bool are_there = keys_.has_all(waiting.keys);
  if (message == Message::check) {
    connection.output += encode_answer(request, encode_number(are_there ? 1 : 0));
  } else if (are_there) {
    connection.output +=
        encode_answer(request, waiting.wants_value ? *keys_.find(waiting.keys[0]) : Bytes());
  } else {
    size_t waited_for = waiting.keys.size();
    for (const Waiting& other : connection.waiting) waited_for += other.keys.size();
    if (waited_for > setup_.limits.keys_waited_for) {
      return fail(Code::exhausted, "it waits for too many keys at once");
    }
    connection.waiting.push_back(std::move(waiting));
    if (connection.is_over) abort_waiting(connection);
  }
  return {};
}

void RankHub::answer_waiting() {
  for (auto& [id, connection] : connections_) {
    std::erase_if(connection.waiting, [&, this](const Waiting& waiting) {
      if (is_full(connection) || !keys_.has_all(waiting.keys)) return false;
      connection.output += encode_answer(
          waiting.request, waiting.wants_value ? *keys_.find(waiting.keys[0]) : Bytes());
      return true;
    });
  }
}

}  // namespace tern
