// What metadata services may say of a machine's end.
#include "fuzz/fuzz.h"
#include "preempt/aws_watcher.h"
#include "preempt/azure_watcher.h"

namespace tern {
namespace {

void try_notices(BytesView bytes) {
  if (const auto notice = parse_instance_action(bytes)) {
    TERN_CHECK(notice->kind == NoticeKind::preempt && notice->source.size() < 100);
  }
  if (const auto notice = parse_rebalance(bytes)) {
    TERN_CHECK(notice->kind == NoticeKind::advice && !notice->id.empty());
  }
  const auto events = parse_scheduled_events(bytes, "train_0");
  if (!events) {
    TERN_CHECK(!events.error().message.empty());
    return;
  }
  for (const Notice& notice : *events) {
    TERN_CHECK(!notice.id.empty() && notice.id.size() <= 256);
    TERN_CHECK(notice.id.find_first_of("\r\n ") == std::string::npos);
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_notices)
