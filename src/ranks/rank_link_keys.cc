// What a rank asks of the keys.
#include <utility>

#include "ranks/rank_link.h"

namespace tern {
namespace {

Bytes with_key(Message message, int64_t request, std::string_view key) {
  return FrameWriter(message).number(request).text(key).finish();
}

Bytes with_keys(Message message, int64_t request, const std::vector<std::string>& keys) {
  FrameWriter frame(message);
  frame.number(request).number(static_cast<int64_t>(keys.size()));
  for (const std::string& key : keys) frame.text(key);
  return frame.finish();
}

}  // namespace

Status RankLink::set(std::string_view key, const Bytes& value) {
  const int64_t request = next_request();
  Bytes frame = FrameWriter(Message::set).number(request).text(key).text(value).finish();
  const Result<Bytes> done = ask(request, std::move(frame), setup_.limit, {});
  return done ? Status() : Status(done.error());
}

void RankLink::set_soon(std::string_view key, const Bytes& value) {
  const int64_t request = next_request();
  MutexLock lock(mutex_);
  // A group that is lost has nobody to tell.
  if (is_lost_) return;
  [[maybe_unused]] const Status sent =
      send_frame(FrameWriter(Message::set).number(request).text(key).text(value).finish());
}

Result<Bytes> RankLink::get(std::string_view key, Milliseconds timeout, std::stop_token stop) {
  const int64_t request = next_request();
  return ask(request, with_key(Message::get, request, key), timeout, std::move(stop));
}

Result<int64_t> RankLink::add(std::string_view key, int64_t amount) {
  const int64_t request = next_request();
  return ask_number(request,
                    FrameWriter(Message::add).number(request).text(key).number(amount).finish());
}

Result<Bytes> RankLink::compare_set(std::string_view key, const Bytes& expected,
                                    const Bytes& desired) {
  const int64_t request = next_request();
  FrameWriter frame(Message::compare_set);
  frame.number(request).text(key).text(expected).text(desired);
  return ask(request, frame.finish(), setup_.limit, {});
}

Result<bool> RankLink::remove(std::string_view key) {
  const int64_t request = next_request();
  ASSIGN_OR_RETURN(const int64_t removed,
                   ask_number(request, with_key(Message::remove, request, key)));
  return removed != 0;
}

Result<bool> RankLink::check(const std::vector<std::string>& keys) {
  const int64_t request = next_request();
  ASSIGN_OR_RETURN(const int64_t are_there,
                   ask_number(request, with_keys(Message::check, request, keys)));
  return are_there != 0;
}

Status RankLink::wait(const std::vector<std::string>& keys, Milliseconds timeout,
                      std::stop_token stop) {
  const int64_t request = next_request();
  const Result<Bytes> done =
      ask(request, with_keys(Message::wait, request, keys), timeout, std::move(stop));
  return done ? Status() : Status(done.error());
}

Result<int64_t> RankLink::keys() {
  const int64_t request = next_request();
  return ask_number(request, FrameWriter(Message::count).number(request).finish());
}

Result<int64_t> RankLink::ask_number(int64_t request, Bytes frame) {
  ASSIGN_OR_RETURN(const Bytes value, ask(request, std::move(frame), setup_.limit, {}));
  return decode_number(value);
}

}  // namespace tern
