#include "image/jpeg_errors.h"

#include <jerror.h>

#include <cstring>
#include <string>

namespace tern {
namespace {

// The words for what people meet most; libjpeg's own for the rest.
const char* known_cause(int code) {
  switch (code) {
    case JWRN_JPEG_EOF: return "the data ends early";
    case JWRN_HIT_MARKER: return "the data of the picture is cut short by a marker";
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE: return "the data of the picture has a bad code";
    case JWRN_MUST_RESYNC: return "a restart marker is missing";
    case JERR_INPUT_EMPTY: return "there is no data";
    default: return nullptr;
  }
}

bool damages_pixels(int warning) {
  return warning == JWRN_JPEG_EOF || warning == JWRN_HIT_MARKER || warning == JWRN_HUFF_BAD_CODE ||
         warning == JWRN_ARITH_BAD_CODE || warning == JWRN_MUST_RESYNC;
}

void on_error(j_common_ptr info) {
  auto& errors = *static_cast<JpegErrors*>(info->err);
  errors.is_out_of_memory = errors.msg_code == JERR_OUT_OF_MEMORY;
  if (const char* cause = known_cause(errors.msg_code)) give_up(errors, cause);
  (*errors.format_message)(info, errors.cause);
  std::longjmp(errors.jump, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && damages_pixels(info->err->msg_code)) on_error(info);
}

// By default it prints to stderr.
void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kJpegScansMax) return;
  static_assert(kJpegScansMax == 500, "the message says so");
  give_up(*static_cast<JpegErrors*>(info->err),
          "it has more than 500 scans, which no camera makes");
}

}  // namespace

JpegErrors::JpegErrors() : jpeg_error_mgr{} {
  jpeg_std_error(this);
  error_exit = on_error;
  emit_message = on_message;
  output_message = on_output;
}

Error JpegErrors::to_error() const {
  if (is_out_of_memory) {
    return fail(Code::exhausted, "no memory is left to decode a JPEG; use fewer loader threads");
  }
  return fail(Code::corrupt, "JPEG: " + std::string(cause));
}

JpegScanLimit::JpegScanLimit() : jpeg_progress_mgr{} { progress_monitor = on_progress; }

void give_up(JpegErrors& errors, const char* cause) {
  errors.is_out_of_memory = false;
  std::strncpy(errors.cause, cause, sizeof errors.cause - 1);
  std::longjmp(errors.jump, 1);
}

void run_out_of_memory(JpegErrors& errors) {
  errors.is_out_of_memory = true;
  std::longjmp(errors.jump, 1);
}

}  // namespace tern
