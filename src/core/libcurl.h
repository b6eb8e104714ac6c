// libcurl, loaded when it is first needed: with all that it needs in turn it is two thirds of the
// libraries that would be loaded at each start, and a run in a folder asks nobody. Only for core's
// own files.
#pragma once

#include <curl/curl.h>

#include "core/result.h"

namespace tern {

struct Libcurl {
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_multi_add_handle) multi_add_handle;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_multi_info_read) multi_info_read;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_remove_handle) multi_remove_handle;
  decltype(&::curl_multi_setopt) multi_setopt;
  decltype(&::curl_multi_socket_action) multi_socket_action;
  decltype(&::curl_multi_timeout) multi_timeout;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_version_info) version_info;
};

// Loads and starts it, once; safe from any thread. `not_found` if it is not
// here, `internal` if it is not whole.
Status start_libcurl();

// REQUIRES: start_libcurl() has succeeded.
const Libcurl& libcurl();

}  // namespace tern
