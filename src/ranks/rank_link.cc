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

// Between two tries to be let in again. What is tried is on this machine.
constexpr Milliseconds kTryEvery{20};

constexpr char kLost[] = "the connection that the group stood on is lost; join again";
constexpr char kGone[] = "the supervisor is gone; start the run again to go on";

}  // namespace

RankLink::RankLink(const RankSetup& setup, Descriptor wake, std::optional<Entry> entry)
    : setup_(setup), wake_(std::move(wake)), frames_(kFrameBytesMax) {
  if (entry) take_entry(std::move(*entry));
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

RankLink::~RankLink() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

Result<RankGroup> RankLink::join(const RankJoin& join, std::stop_token stop) {
  RankJoin told = join;
  while (true) {
    const int64_t request = next_request();
    {
      MutexLock lock(mutex_);
      answered_.wait(lock, stop, [this] {
        mutex_.assert_held();
        return is_connected_ || ended_ || has_left_;
      });
      join_request_ = request;
      is_lost_ = false;
      told.generation = generation_;
      told.rank = rank_;
    }
    if (stop.stop_requested()) return fail(Code::cancelled, "told to stop while waiting");
    // A generation forms when it can; there is no time after which it cannot.
    const Result<Bytes> value = ask(request, encode_join(request, told), Milliseconds(-1), stop);
    // Nobody answers a join like that: the connection was lost.
    if (!value && value.error().code == Code::aborted) continue;
    if (!value) return value.error();
    ASSIGN_OR_RETURN(RankGroup group, decode_group(*value));
    group.interface_address = setup_.interface_address;
    return group;
  }
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
  if (!is_connected_ || has_left_) return;
  output_ += encode_heartbeat(progress_);
  flush();
}

Status RankLink::leave(std::string_view why) {
  MutexLock lock(mutex_);
  const Status sent =
      send_frame(FrameWriter(Message::leave).text(why.substr(0, kLineBytesMax)).finish());
  has_left_ = true;
  wake(wake_);
  // Between two connections nobody knows that it was there.
  if (!sent.has_value()) return sent.error().code == Code::aborted ? Status() : sent;
  // The supervisor closes the connection once it has understood.
  answered_.wait_for(lock, kLeaveLimit, [this] {
    mutex_.assert_held();
    return !is_connected_;
  });
  return {};
}

// A timeout below 0: none.
Result<Bytes> RankLink::ask(int64_t request, Bytes frame, Milliseconds timeout,
                            std::stop_token stop) {
  MutexLock lock(mutex_);
  // The keys of whoever answers now are not those of the generation that was lost.
  if (is_lost_ && !ended_) return fail(Code::aborted, kLost);
  RETURN_IF_ERROR(send_frame(std::move(frame)));
  requests_[request];
  const auto is_answered = [this, request] {
    mutex_.assert_held();
    return requests_.at(request).has_value();
  };
  if (timeout >= Milliseconds(0)) {
    answered_.wait_for(lock, stop, timeout, is_answered);
  } else {
    answered_.wait(lock, stop, is_answered);
  }
  std::optional<Result<Bytes>> answer = std::move(requests_.at(request));
  requests_.erase(request);
  if (answer) return std::move(*answer);
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
  if (ended_) return *ended_;
  if (!is_connected_ && !has_left_) return fail(Code::aborted, kLost);
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
  while (true) {
    const Status connected = connect_again(stop);
    const Status ended = connected.has_value() ? talk(stop) : connected;
    if (stop.stop_requested() || ended.has_value()) return;
    bool is_the_end = !setup_.reconnects || !connected.has_value();
    {
      MutexLock lock(mutex_);
      is_the_end = is_the_end || has_left_;
      if (is_the_end) ended_ = ended.error();
    }
    lose(ended.error());
    if (is_the_end) return;
  }
}

// At once if there is a connection already.
Status RankLink::connect_again(const std::stop_token& stop) {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (is_connected_) return {};
      if (has_left_) return fail(Code::unavailable, "this rank has left the group");
    }
    Result<Entry> entry = enter(entry_setup(setup_), stop);
    if (entry) {
      take_entry(std::move(*entry));
      return {};
    }
    // Between two hubs whoever comes is sent away, or not answered.
    const Code code = entry.error().code;
    if (code != Code::aborted && code != Code::deadline_exceeded) return entry.error();
    setup_.clock->wait_for(kTryEvery, stop);
  }
}

void RankLink::take_entry(Entry entry) {
  frames_ = std::move(entry.frames);
  MutexLock lock(mutex_);
  socket_ = std::move(entry.socket);
  is_connected_ = true;
  answered_.notify_all();
}

// Until the connection is lost, or the link is stopped.
Status RankLink::talk(const std::stop_token& stop) {
  int socket = -1;
  {
    MutexLock lock(mutex_);
    socket = socket_.get();
  }
  RETURN_IF_ERROR(obey_all());  // what came with the welcome
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
    std::array<pollfd, 2> sources{{{socket, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    if (has_output) sources[0].events |= POLLOUT;
    poll(sources.data(), sources.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    if (sources[1].revents != 0) clear_wake(wake_);
    if ((sources[0].revents & POLLOUT) != 0) {
      MutexLock lock(mutex_);
      flush();
    }
    if ((sources[0].revents & ~POLLOUT) == 0) continue;
    RETURN_IF_ERROR(receive(socket));
  }
  return {};
}

Status RankLink::receive(int socket) {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
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
    rank_ = group.rank;
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
  if (has_left_ || !is_connected_ || !output_.empty()) return;
  output_ += encode_heartbeat(progress_);
  flush();
}

void RankLink::lose(const Error& why) {
  std::stop_source over;
  {
    MutexLock lock(mutex_);
    is_connected_ = false;
    is_lost_ = true;
    socket_.reset();
    output_.clear();
    change_is_wanted_ = false;
    for (auto& [request, answer] : requests_) {
      if (!answer && ended_) answer = *ended_;
      if (!answer) answer = fail(Code::aborted, fmt::format("{} ({})", kLost, why.message));
    }
    over = over_;
    answered_.notify_all();
  }
  over.request_stop();
}

}  // namespace tern
