#include "ranks/rank_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tern {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// A supervisor that is stopped takes nothing; a trainer that waits for it sends little.
constexpr size_t kOutputBytesMax = 16 << 20;
// For the goodbye only.
constexpr Milliseconds kLeaveLimit{2'000};

constexpr char kGone[] = "the supervisor is gone; start the run again to go on";

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

RankLink::RankLink(const RankSetup& setup, Descriptor socket, Descriptor wake, FrameReader frames)
    : setup_(setup),
      socket_(std::move(socket)),
      wake_(std::move(wake)),
      frames_(std::move(frames)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

RankLink::~RankLink() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

Result<RankGroup> RankLink::join(const RankJoin& join, std::stop_token stop) {
  const int64_t request = next_request();
  {
    MutexLock lock(mutex_);
    join_request_ = request;
  }
  // A generation forms when it can; there is no time after which it cannot.
  ASSIGN_OR_RETURN(const Bytes value,
                   ask(request, encode_join(request, join), Milliseconds(-1), std::move(stop)));
  ASSIGN_OR_RETURN(RankGroup group, decode_group(value));
  group.interface_address = setup_.interface_address;
  return group;
}

std::stop_token RankLink::generation_over() const {
  MutexLock lock(mutex_);
  return over_.get_token();
}

void RankLink::tell(RankProgress progress) {
  MutexLock lock(mutex_);
  progress_ = std::move(progress);
  if (has_stepped_ || progress_.step <= joined_at_step_) return;
  has_stepped_ = true;
  if (ended_ || has_left_) return;
  output_ += encode_heartbeat(progress_);
  flush();
}

Status RankLink::leave(std::string_view why) {
  RETURN_IF_ERROR(
      send_frame(FrameWriter(Message::leave).text(why.substr(0, kLineBytesMax)).finish()));
  MutexLock lock(mutex_);
  has_left_ = true;
  // The supervisor closes the connection once it has understood.
  answered_.wait_for(lock, kLeaveLimit, [this] {
    mutex_.assert_held();
    return ended_.has_value();
  });
  return {};
}

Status RankLink::set(std::string_view key, const Bytes& value) {
  const int64_t request = next_request();
  Bytes frame = FrameWriter(Message::set).number(request).text(key).text(value).finish();
  const Result<Bytes> done = ask(request, std::move(frame), setup_.limit, {});
  return done ? Status() : Status(done.error());
}

Result<Bytes> RankLink::get(std::string_view key, Milliseconds timeout) {
  const int64_t request = next_request();
  return ask(request, with_key(Message::get, request, key), timeout, {});
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

Status RankLink::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  const int64_t request = next_request();
  const Result<Bytes> done = ask(request, with_keys(Message::wait, request, keys), timeout, {});
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

// A timeout below 0: none.
Result<Bytes> RankLink::ask(int64_t request, Bytes frame, Milliseconds timeout,
                            std::stop_token stop) {
  {
    MutexLock lock(mutex_);
    requests_[request];
  }
  const Status sent = send_frame(std::move(frame));
  MutexLock lock(mutex_);
  const auto is_answered = [this, request] {
    mutex_.assert_held();
    return requests_.at(request).has_value() || ended_.has_value();
  };
  if (sent.has_value() && timeout >= Milliseconds(0)) {
    answered_.wait_for(lock, stop, timeout, is_answered);
  } else if (sent.has_value()) {
    answered_.wait(lock, stop, is_answered);
  }
  std::optional<Result<Bytes>> answer = std::move(requests_.at(request));
  requests_.erase(request);
  if (answer) return std::move(*answer);
  if (!sent.has_value()) return sent.error();
  if (ended_) return *ended_;
  // The answer that may come all the same is to nobody.
  output_ += FrameWriter(Message::forget).number(request).finish();
  flush();
  if (stop.stop_requested()) return fail(Code::cancelled, "told to stop while waiting");
  return fail(Code::deadline_exceeded,
              fmt::format("the supervisor had no answer within {} ms", timeout.count()));
}

Status RankLink::send_frame(Bytes frame) {
  // Its length goes before it.
  if (frame.size() > kFrameBytesMax + sizeof(uint32_t)) {
    return fail(Code::exhausted,
                fmt::format("a message of {} bytes; {} are allowed", frame.size(), kFrameBytesMax));
  }
  MutexLock lock(mutex_);
  if (ended_) return *ended_;
  if (has_left_) return fail(Code::unavailable, "this rank has left the group");
  if (output_.size() > kOutputBytesMax) {
    return fail(Code::unavailable, "the supervisor takes no messages; is it stopped?");
  }
  output_ += frame;
  flush();
  return {};
}

// Here, so that a question needs no other thread to be sent; the thread sends what does not fit.
void RankLink::flush() {
  while (!output_.empty()) {
    const ssize_t sent =
        send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    output_.erase(0, static_cast<size_t>(sent));
  }
  if (!output_.empty()) wake(wake_);
}

void RankLink::serve(const std::stop_token& stop) {
  // What came with the welcome.
  if (const Status obeyed = obey_all(); !obeyed.has_value()) {
    end(obeyed.error());
    return;
  }
  Nanoseconds next_beat = setup_.clock->now();
  while (!stop.stop_requested()) {
    const Nanoseconds now = setup_.clock->now();
    if (now >= next_beat) {
      beat();
      next_beat = now + setup_.heartbeat;
    }
    bool has_output = false;
    {
      MutexLock lock(mutex_);
      has_output = !output_.empty();
    }
    const auto left = std::chrono::ceil<Milliseconds>(next_beat - now);
    std::array<pollfd, 2> sources{{{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    if (has_output) sources[0].events |= POLLOUT;
    poll(sources.data(), sources.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    if (sources[1].revents != 0) clear_wake(wake_);
    if ((sources[0].revents & POLLOUT) != 0) {
      MutexLock lock(mutex_);
      flush();
    }
    if ((sources[0].revents & ~POLLOUT) == 0) continue;
    if (const Status received = receive(); !received.has_value()) {
      end(received.error());
      return;
    }
  }
}

Status RankLink::receive() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) return fail(Code::unavailable, kGone);
  frames_.add({buffer.data(), static_cast<size_t>(got)});
  return obey_all();
}

Status RankLink::obey_all() {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Bytes> frame, frames_.next());
    if (!frame) return {};
    RETURN_IF_ERROR(obey(*frame));
  }
}

Status RankLink::obey(BytesView frame) {
  FieldReader fields(frame);
  switch (static_cast<Message>(fields.byte())) {
    case Message::answer: return take_answer(frame);
    case Message::over: {
      const int64_t generation = fields.number();
      RETURN_IF_ERROR(fields.finish());
      std::stop_source over;
      {
        MutexLock lock(mutex_);
        if (generation == generation_) over = over_;
      }
      over.request_stop();  // not under the lock: whoever waits for it may call back
      return {};
    }
    case Message::change: {
      const bool is_wanted = fields.byte() != 0;
      RETURN_IF_ERROR(fields.finish());
      change_is_wanted_ = is_wanted;
      return {};
    }
    case Message::notice: {
      ASSIGN_OR_RETURN(Notice notice, decode_notice(frame));
      if (setup_.board != nullptr) setup_.board->post(std::move(notice));
      return {};
    }
    default: return fail(Code::corrupt, "the supervisor says what this version does not know");
  }
}

Status RankLink::take_answer(BytesView frame) {
  ASSIGN_OR_RETURN(Answer answer, decode_answer(frame));
  MutexLock lock(mutex_);
  const auto found = requests_.find(answer.request);
  if (found == requests_.end()) return {};  // forgotten
  if (answer.request == join_request_ && answer.value) {
    // Here and not in join(), so that an end that comes right behind it is this generation's.
    ASSIGN_OR_RETURN(const RankGroup group, decode_group(*answer.value));
    generation_ = group.generation;
    joined_at_step_ = group.step;
    has_stepped_ = false;
    over_ = std::stop_source();
    change_is_wanted_ = false;
  }
  found->second = std::move(answer.value);
  answered_.notify_all();
  return {};
}

void RankLink::beat() {
  MutexLock lock(mutex_);
  // One that is still on its way says as much.
  if (has_left_ || !output_.empty()) return;
  output_ += encode_heartbeat(progress_);
  flush();
}

void RankLink::end(const Error& why) {
  std::stop_source over;
  {
    MutexLock lock(mutex_);
    ended_ = why;
    over = over_;
    answered_.notify_all();
  }
  over.request_stop();
}

}  // namespace tern
