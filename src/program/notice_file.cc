#include "program/notice_file.h"

#include <nlohmann/json.hpp>

#include "storage/file_door.h"

namespace tern {

Status write_notice_file(const std::filesystem::path& file, const Notice& notice) {
  nlohmann::json json = {{"kind", notice.kind == NoticeKind::stop ? "stop" : "preempt"},
                         {"source", notice.source},
                         {"unix_ms", notice.unix_ms}};
  if (notice.deadline_unix_ms > 0) json["deadline_unix_ms"] = notice.deadline_unix_ms;
  RealFileDoor door;
  std::filesystem::path part = file;
  part += ".part";
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  const auto replace = nlohmann::json::error_handler_t::replace;
  RETURN_IF_ERROR(door.write_new(part, json.dump(-1, ' ', false, replace) + "\n"));
  return door.rename(part, file);
}

}  // namespace tern
