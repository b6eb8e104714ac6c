#include "report/spans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/result.h"

namespace tern {

std::string_view span_name(Span span) {
  switch (span) {
    case Span::start: return "start";
    case Span::fetch: return "fetch";
    case Span::decode: return "decode";
    case Span::augment: return "augment";
    case Span::queue: return "queue";
    case Span::copy: return "copy";
    case Span::compute: return "compute";
    case Span::checkpoint: return "checkpoint";
    case Span::evaluation: return "evaluation";
    case Span::other: return "other";
    case Span::communication: return "communication";
  }
  return "unknown";
}

Nanoseconds SpanTimes::total() const {
  return std::accumulate(times.begin(), times.end(), Nanoseconds(0));
}

SpanTimes& SpanTimes::operator+=(const SpanTimes& more) {
  for (size_t i = 0; i < kSpans; ++i) times[i] += more.times[i];
  return *this;
}

double SpanSeconds::total() const { return std::accumulate(values.begin(), values.end(), 0.0); }

double SpanSeconds::data_wait() const {
  const SpanSeconds& self = *this;
  return self[Span::fetch] + self[Span::decode] + self[Span::augment] + self[Span::queue];
}

SpanSeconds& SpanSeconds::operator+=(const SpanSeconds& more) {
  for (size_t i = 0; i < kSpans; ++i) values[i] += more.values[i];
  return *this;
}

SpanMeter::SpanMeter(Clock& clock, Nanoseconds before) : clock_(clock), since_(clock.now()) {
  fresh_[Span::start] = std::max(Nanoseconds(0), before);
}

void SpanMeter::settle() {
  const Nanoseconds now = clock_.now();
  fresh_[running_] += now - since_;
  since_ = now;
}

void SpanMeter::enter(Span span) {
  settle();
  running_ = span;
}

void SpanMeter::reassign(Span from, Span to, Nanoseconds time) {
  settle();  // `from` may be the span that runs
  const Nanoseconds moved = std::clamp(time, Nanoseconds(0), fresh_[from]);
  fresh_[from] -= moved;
  fresh_[to] += moved;
}

SpanTimes SpanMeter::take() {
  settle();
  const SpanTimes since_last = fresh_;
  taken_ += fresh_;
  fresh_ = {};
  return since_last;
}

SpanTimes SpanMeter::totals() {
  settle();
  SpanTimes all = taken_;
  all += fresh_;
  return all;
}

SpanTimes as_seen_by_device(const SpanTimes& host, Nanoseconds device_compute) {
  SpanTimes seen = host;
  const Nanoseconds computed = std::max(Nanoseconds(0), device_compute);
  if (computed <= host[Span::compute]) {
    seen[Span::compute] = computed;
    seen[Span::other] += host[Span::compute] - computed;
    return seen;
  }
  // The device computed on while the host waited for data, copied or kept records: those spans
  // shrink, each by the same share.
  constexpr Span kOverlapped[] = {Span::fetch, Span::decode, Span::augment,
                                  Span::queue, Span::copy,   Span::other};
  Nanoseconds overlappable{0};
  for (const Span span : kOverlapped) overlappable += host[span];
  const Nanoseconds hidden = std::min(computed - host[Span::compute], overlappable);
  if (overlappable.count() == 0) return seen;
  const double kept =
      1.0 - static_cast<double>(hidden.count()) / static_cast<double>(overlappable.count());
  Nanoseconds left{0};
  for (const Span span : kOverlapped) {
    const auto time = static_cast<double>(host[span].count()) * kept;
    seen[span] = Nanoseconds(std::llround(time));
    left += seen[span];
  }
  seen[Span::compute] += overlappable - left;  // what rounding moves stays in the total
  return seen;
}

}  // namespace tern
