#include "preempt/gcp_watcher.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "core/system_files.h"

namespace tern {
namespace {

constexpr char kFlavorHeader[] = "Metadata-Flavor";
constexpr char kFlavor[] = "Google";
// Long polls follow each other at once; a server that does not wait must not be asked all the time.
constexpr Milliseconds kEvery{500};
constexpr size_t kEtagBytesMax = 128;

// What Google's documents promise from the warning on; the server itself does not say.
constexpr Milliseconds kPreemptionLead{30'000};
constexpr Milliseconds kMaintenanceLead{60'000};

Error unknown_value(const std::string& key, const std::string& value) {
  return fail(Code::corrupt,
              fmt::format("its value of {} is '{}', which is not known; see what answers at its "
                          "address",
                          key, printable_line(value).substr(0, 40)));
}

// A value as a notice, `unix_ms` being now. Nothing while all is well.
Result<std::optional<Notice>> judge_preempted(const std::string& value, int64_t unix_ms) {
  if (value == "FALSE") return std::optional<Notice>();
  if (value != "TRUE") return unknown_value("preempted", value);
  return std::optional(Notice{.kind = NoticeKind::preempt,
                              .source = "GCP preemption",
                              .unix_ms = unix_ms,
                              .deadline_unix_ms = unix_ms + kPreemptionLead.count()});
}

Result<std::optional<Notice>> judge_maintenance(const std::string& value, int64_t unix_ms) {
  if (value == "NONE") return std::optional<Notice>();
  const bool is_end = value == "TERMINATE_ON_HOST_MAINTENANCE";
  if (!is_end && value != "MIGRATE_ON_HOST_MAINTENANCE") {
    return unknown_value("maintenance-event", value);
  }
  return std::optional(
      Notice{.kind = is_end ? NoticeKind::preempt : NoticeKind::advice,
             .source = fmt::format("GCP host maintenance ({})", is_end ? "terminate" : "migrate"),
             .unix_ms = unix_ms,
             .deadline_unix_ms = unix_ms + kMaintenanceLead.count()});
}

}  // namespace

struct GcpWatcher::Key {
  const char* name;
  Result<std::optional<Notice>> (*judge)(const std::string& value, int64_t unix_ms);
};

GcpWatcher::GcpWatcher(const CloudSetup& setup)
    : setup_(setup),
      preempted_([this](std::stop_token stop) { watch({"preempted", judge_preempted}, stop); }),
      maintenance_([this](std::stop_token stop) {
        watch({"maintenance-event", judge_maintenance}, stop);
      }) {}

void GcpWatcher::watch(const Key& key, const std::stop_token& stop) const {
  MetadataClient service(setup_.endpoint);
  MetadataPace pace({.service = fmt::format("GCP metadata server ({})", key.name),
                     .every = kEvery,
                     .clock = setup_.clock,
                     .log = setup_.log});
  std::string etag;
  const auto look = [&]() -> Status {
    Result<GcpValue> value = ask_gcp(service, key.name, etag, setup_.silence, setup_.limit, stop);
    etag.clear();  // after a failure nothing is known: the next question is answered at once
    if (!value.has_value()) return value.error();
    ASSIGN_OR_RETURN(std::optional<Notice> notice, key.judge(value->text, setup_.clock->unix_ms()));
    if (notice) {
      notice->id = notice_id({"GCP", key.name, value->text, value->etag});
      setup_.board->post(std::move(*notice));
    }
    etag = std::move(value->etag);
    return {};
  };
  Status last;
  do {
    last = look();
  } while (pace.wait(last, stop));
}

Result<GcpValue> ask_gcp(MetadataClient& service, const std::string& key, const std::string& etag,
                         Milliseconds silence, Milliseconds limit, const std::stop_token& stop) {
  std::string path = "/computeMetadata/v1/instance/" + key;
  if (!etag.empty()) {
    path +=
        fmt::format("?wait_for_change=true&timeout_sec={}&last_etag={}",
                    std::chrono::ceil<std::chrono::seconds>(silence).count(), percent_encode(etag));
    limit += silence;
  }
  ASSIGN_OR_RETURN(
      const HttpAnswer answer,
      service.ask_for_value({.path = path, .headers = {{kFlavorHeader, kFlavor}}, .limit = limit},
                            stop));
  if (answer.header(kFlavorHeader) != kFlavor) {
    return fail(Code::corrupt,
                "the answer is not signed \"Metadata-Flavor: Google\"; see what answers at its "
                "address");
  }
  GcpValue value{.text = printable_line(answer.body), .etag = std::string(answer.header("ETag"))};
  if (value.etag.empty() || value.etag.size() > kEtagBytesMax) {
    return fail(Code::corrupt, "the answer has no ETag; see what answers at its address");
  }
  return value;
}

}  // namespace tern
