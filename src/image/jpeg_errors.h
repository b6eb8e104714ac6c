// libjpeg's way of failing, made ours. Private to this folder's jpeg_*.cc.
//
// libjpeg calls a function that must not return. Ours jumps back to run_guarded(), so nothing
// between there and libjpeg may have a destructor: what is guarded uses plain values, and whatever
// owns memory lives outside.
//
//   JpegErrors errors;
//   info.err = &errors;
//   if (!run_guarded(errors, [&] { jpeg_create_decompress(&info); })) return errors.to_error();
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After <cstddef> and <cstdio>, whose types it uses without including them.
#include <jpeglib.h>

#include "core/result.h"

namespace tern {

// A progressive image needs about ten scans and at most a few hundred. Each scan costs time for the
// whole image however few bytes it has, so a small file of thousands would hold a worker for hours.
inline constexpr int kJpegScansMax = 500;

// Owned beside the libjpeg structure that points at it, by the same thread; does not move.
//
// Warnings that pixels are missing or wrong (the data ends early, bad codes, a restart marker that
// is not there) are failures here; others, which leave the pixels whole, pass.
struct JpegErrors : jpeg_error_mgr {
  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  // After run_guarded() returned false: `corrupt`, or `exhausted` if memory ran out.
  Error to_error() const;

  std::jmp_buf jump;
  bool is_out_of_memory = false;
  char cause[JMSG_LENGTH_MAX] = {};
};

// Fails what reads more than kJpegScansMax scans. Set info.progress to it.
struct JpegScanLimit : jpeg_progress_mgr {
  JpegScanLimit();
};

// Ends the guarded work with this cause. May be called from libjpeg's callbacks.
[[noreturn]] void give_up(JpegErrors& errors, const char* cause);
[[noreturn]] void run_out_of_memory(JpegErrors& errors);

// False if libjpeg gave up in between. REQUIRES: nothing in `work` or below has a destructor.
template <typename Work>
bool run_guarded(JpegErrors& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) return false;
  work();
  return true;
}

}  // namespace tern
