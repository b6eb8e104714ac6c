#include "core/libcurl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace tern {
namespace {

struct Loaded {
  Libcurl functions{};
  Status status;
};

std::string loader_message() {
  const char* const message = dlerror();
  return message == nullptr ? "it cannot be loaded" : message;
}

Status load(Libcurl& functions) {
  // The one with OpenSSL, whose certificates we set. Never closed: it has threads and callbacks.
  void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(
        Code::not_found,
        fmt::format("libcurl, which asks web servers, is not here: {}; install it (Debian's "
                    "package is libcurl4)",
                    loader_message()));
  }
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  decltype(&::curl_global_init) global_init = nullptr;
  find("curl_global_init", global_init);
  find("curl_easy_cleanup", functions.easy_cleanup);
  find("curl_easy_getinfo", functions.easy_getinfo);
  find("curl_easy_init", functions.easy_init);
  find("curl_easy_perform", functions.easy_perform);
  find("curl_easy_reset", functions.easy_reset);
  find("curl_easy_setopt", functions.easy_setopt);
  find("curl_easy_strerror", functions.easy_strerror);
  find("curl_multi_add_handle", functions.multi_add_handle);
  find("curl_multi_cleanup", functions.multi_cleanup);
  find("curl_multi_info_read", functions.multi_info_read);
  find("curl_multi_init", functions.multi_init);
  find("curl_multi_remove_handle", functions.multi_remove_handle);
  find("curl_multi_setopt", functions.multi_setopt);
  find("curl_multi_socket_action", functions.multi_socket_action);
  find("curl_multi_timeout", functions.multi_timeout);
  find("curl_slist_append", functions.slist_append);
  find("curl_slist_free_all", functions.slist_free_all);
  find("curl_version_info", functions.version_info);
  if (!missing.empty()) {
    return fail(Code::internal,
                fmt::format("libcurl has no {}; is its installation whole?", missing));
  }
  // Never undone, as other threads may be using it.
  const CURLcode started = global_init(CURL_GLOBAL_DEFAULT);
  if (started == CURLE_OK) return {};
  return fail(Code::internal, fmt::format("libcurl does not start: {}; is its installation whole?",
                                          functions.easy_strerror(started)));
}

const Loaded& loaded() {
  static const Loaded made = [] {
    Loaded loading;
    loading.status = load(loading.functions);
    return loading;
  }();
  return made;
}

}  // namespace

Status start_libcurl() { return loaded().status; }

const Libcurl& libcurl() {
  TERN_CHECK(loaded().status.has_value());
  return loaded().functions;
}

}  // namespace tern
