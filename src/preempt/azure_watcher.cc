#include "preempt/azure_watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/http_date.h"
#include "core/http_head.h"
#include "preempt/json_text.h"

namespace tern {
namespace {

constexpr char kEventsPath[] = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr char kMachinePath[] = "/metadata/instance/compute?api-version=2021-02-01&format=json";
constexpr size_t kNameBytesMax = 256;

// Without it the service refuses to answer, so that no page in a browser can ask.
HttpHeader metadata_header() { return {"Metadata", "true"}; }

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kNameBytesMax && is_header_text(text);
}

// Names are compared as Azure does it, whatever their case.
bool names(const nlohmann::json& resources, const std::string& machine) {
  if (!resources.is_array()) return false;
  return std::ranges::any_of(resources, [&machine](const nlohmann::json& name) {
    return name.is_string() && equals_ignoring_case(name.get_ref<const std::string&>(), machine);
  });
}

// Nothing for an event that is of no concern here.
std::optional<Notice> notice_of(const nlohmann::json& event, const std::string& machine) {
  const std::string type = text_in(event, "EventType");
  const bool leaves =
      type == "Preempt" || type == "Terminate" || type == "Reboot" || type == "Redeploy";
  if (!leaves && type != "Freeze") return std::nullopt;
  const std::string id = text_in(event, "EventId");
  const auto resources = event.find("Resources");
  if (!is_name(id) || resources == event.end() || !names(*resources, machine)) return std::nullopt;
  // Empty once the event has begun.
  const std::optional<int64_t> not_before = parse_http_date(text_in(event, "NotBefore"));
  return Notice{.kind = leaves ? NoticeKind::preempt : NoticeKind::advice,
                .source = fmt::format("Azure scheduled event ({})", type),
                .deadline_unix_ms = not_before.value_or(0),
                .id = id};
}

}  // namespace

AzureWatcher::AzureWatcher(const CloudSetup& setup)
    : setup_(setup),
      service_(setup.endpoint),
      thread_([this](std::stop_token stop) { watch(stop); }) {}

void AzureWatcher::watch(const std::stop_token& stop) {
  MetadataPace pace(
      {.service = "Azure metadata service", .clock = setup_.clock, .log = setup_.log});
  Status last;
  do {
    last = look(stop);
  } while (pace.wait(last, stop));
}

Status AzureWatcher::look(const std::stop_token& stop) {
  if (machine_.empty()) {
    ASSIGN_OR_RETURN(const AzureMachine machine, ask_azure_machine(service_, setup_.limit, stop));
    machine_ = machine.name;
  }
  const Milliseconds limit = has_asked_events_ ? setup_.limit : setup_.first_limit;
  ASSIGN_OR_RETURN(
      const HttpAnswer answer,
      service_.ask_for_value({.path = kEventsPath, .headers = {metadata_header()}, .limit = limit},
                             stop));
  has_asked_events_ = true;
  ASSIGN_OR_RETURN(std::vector<Notice> notices, parse_scheduled_events(answer.body, machine_));
  for (Notice& notice : notices) {
    notice.unix_ms = setup_.clock->unix_ms();
    const std::string id = notice.id;
    const bool leaves = notice.kind == NoticeKind::preempt;
    if (!setup_.board->post(std::move(notice)) || !leaves) continue;
    MutexLock lock(mutex_);
    to_acknowledge_.push_back(id);
  }
  return {};
}

void AzureWatcher::machine_may_go() {
  if (!setup_.acknowledge) return;
  nlohmann::json requests = nlohmann::json::array();
  {
    MutexLock lock(mutex_);
    for (const std::string& id : to_acknowledge_) requests.push_back({{"EventId", id}});
    to_acknowledge_.clear();
  }
  if (requests.empty()) return;
  MetadataClient service(setup_.endpoint);  // service_ is the thread's
  const Result<HttpAnswer> answer =
      service.ask_for_value({.path = kEventsPath,
                             .headers = {metadata_header(), {"Content-Type", "application/json"}},
                             .method = "POST",
                             .body = nlohmann::json{{"StartRequests", requests}}.dump(),
                             .limit = setup_.limit},
                            {});
  if (answer.has_value()) {
    setup_.log->info("preempt", "told Azure that this machine may go");
  } else {
    setup_.log->warn("preempt", "cannot tell Azure that this machine may go; it goes in its time",
                     {{"cause", answer.error().to_string()}});
  }
}

Result<AzureMachine> ask_azure_machine(MetadataClient& service, Milliseconds limit,
                                       const std::stop_token& stop) {
  ASSIGN_OR_RETURN(
      const HttpAnswer answer,
      service.ask_for_value({.path = kMachinePath, .headers = {metadata_header()}, .limit = limit},
                            stop));
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  AzureMachine machine{.name = text_in(json, "name"), .size = text_in(json, "vmSize")};
  if (!is_name(machine.name)) {
    return fail(Code::corrupt,
                "it does not tell this machine's name; see what answers at its address");
  }
  if (!is_name(machine.size)) machine.size.clear();
  return machine;
}

Result<std::vector<Notice>> parse_scheduled_events(BytesView json, const std::string& machine) {
  const auto answer = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const bool is_object = answer.is_object() && answer.contains("Events");
  if (!is_object || !answer["Events"].is_array()) {
    return fail(Code::corrupt, "it gives no list of events; see what answers at its address");
  }
  std::vector<Notice> notices;
  for (const nlohmann::json& event : answer["Events"]) {
    if (!event.is_object()) continue;
    if (std::optional<Notice> notice = notice_of(event, machine)) {
      notices.push_back(std::move(*notice));
    }
  }
  return notices;
}

}  // namespace tern
