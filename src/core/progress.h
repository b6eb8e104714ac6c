// Progress of something longer than a few seconds: rate and time left. On a terminal one line
// rewritten in place; elsewhere a plain line every now and then.
//
//   Progress progress(log, clock, {.what = "train", .unit = "samples", .total = 480'000});
//   progress.update(done, "loss 0.31");
//   progress.finish();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/log.h"

namespace tern {

struct ProgressOptions {
  std::string what;   // the first word of the line
  std::string unit;   // "samples", "bytes"
  int64_t total = 0;  // 0: unknown, no time left is shown
  int64_t start = 0;  // what was already done before this process; not part of the rate
  Milliseconds terminal_every{200};
  Milliseconds plain_every{10'000};
};

// Owned by one thread; log and clock outlive it. Costs a clock read per update while nothing is
// due. Nothing in it fails.
class Progress {
 public:
  Progress(Log& log, Clock& clock, ProgressOptions options);
  ~Progress();  // removes the line

  void update(int64_t done, const std::string& note = "");
  void finish();  // removes the line; an update after it brings it back

  // "train  37 %  12,800 of 60,000 samples  4,310 samples/s  11 s left  loss 0.31"
  std::string render(int64_t done, const std::string& note) const;

 private:
  std::string render_numbers(int64_t done, const std::string& note) const;

  Log& log_;
  Clock& clock_;
  const ProgressOptions options_;
  const Nanoseconds started_;
  Nanoseconds shown_;
};

std::string format_count(int64_t count);                          // "12,800"
std::string format_count(int64_t count, std::string_view thing);  // "1 object", "12,800 objects"
std::string format_bytes(int64_t bytes);                          // "31.2 MB"
std::string format_seconds(double seconds);  // "11 s", "2 min 05 s", "1 h 17 min", "3 d 04 h"

}  // namespace tern
