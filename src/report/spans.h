// Where the time of a process goes. At any moment exactly one span is running, so the spans add up
// to the wall time by construction; a switch costs one look at the clock.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/clock.h"

namespace tern {

// Their names are in files: append, never rename or reorder.
enum class Span {
  start,          // from exec to the first step
  fetch,          // waited for data, which was being fetched
  decode,         //   ... decoded
  augment,        //   ... augmented
  queue,          //   ... not yet begun, or held up behind other work
  copy,           // batch to the device
  compute,        // forward, backward, optimizer
  checkpoint,     // saving
  evaluation,     // accuracy on the test data
  other,          // everything else: records, lease, progress
  communication,  // waited for other ranks
};
inline constexpr size_t kSpans = 11;
inline constexpr std::array<Span, kSpans> kAllSpans = {
    Span::start,      Span::fetch, Span::decode,       Span::augment,
    Span::queue,      Span::copy,  Span::compute,      Span::checkpoint,
    Span::evaluation, Span::other, Span::communication};

// "start", "fetch", ...
std::string_view span_name(Span span);

struct SpanTimes {
  std::array<Nanoseconds, kSpans> times{};

  Nanoseconds& operator[](Span span) { return times[static_cast<size_t>(span)]; }
  Nanoseconds operator[](Span span) const { return times[static_cast<size_t>(span)]; }
  Nanoseconds total() const;
  SpanTimes& operator+=(const SpanTimes& more);
};

// The same as files and reports have it: of one process, or summed over several.
struct SpanSeconds {
  std::array<double, kSpans> values{};

  double& operator[](Span span) { return values[static_cast<size_t>(span)]; }
  double operator[](Span span) const { return values[static_cast<size_t>(span)]; }
  double total() const;
  // Fetch, decode, augment and queue: all that the step waited for its data.
  double data_wait() const;
  SpanSeconds& operator+=(const SpanSeconds& more);
};

// Owned by the step loop; one thread.
class SpanMeter {
 public:
  // Runs `start` from now; `before` is what the process has lived already.
  SpanMeter(Clock& clock, Nanoseconds before);

  // Ends the running span and begins `span`.
  void enter(Span span);
  Span running() const { return running_; }
  // Hands time that `from` was charged for to `to`; no more than `from` has had since take().
  void reassign(Span from, Span to, Nanoseconds time);

  // What has passed since the last take(), the running span's part included.
  SpanTimes take();
  // Everything until now.
  SpanTimes totals();

 private:
  void settle();

  Clock& clock_;
  Nanoseconds since_;
  Span running_ = Span::start;
  SpanTimes taken_;  // up to the last take()
  SpanTimes fresh_;  // since
};

// The step loop of a GPU runs ahead of the device, so that the host's spans say what the host did.
// Given the time for which the device computed during `host`'s steps (by its own events), the same
// total told by the device: compute is what it computed, and what the host did meanwhile cost
// nothing. Host time in compute beyond the device's is the host's own (launching), so `other`.
SpanTimes as_seen_by_device(const SpanTimes& host, Nanoseconds device_compute);

}  // namespace tern
