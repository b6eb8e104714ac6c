#include "cloud/nonce.h"

namespace tern {

Result<Writer> writer_by(const Result<std::string>& found, const std::string& our_nonce) {
  if (!found && found.error().code == Code::not_found) return Writer::nobody;
  if (!found) return found.error();
  return *found == our_nonce ? Writer::us : Writer::others;
}

}  // namespace tern
