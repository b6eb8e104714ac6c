// Names of files inside archives and trees, made safe to use.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace tern {

// Without "./", empty parts and a trailing '/'. `corrupt`: absolute, with "..", longer than any
// file system takes, empty, or with control characters. Bytes that are no UTF-8 are kept.
Result<std::string> clean_member_path(std::string_view path);

// For messages: control characters and what is no ASCII become '?', long names are cut.
std::string printable_path(std::string_view path);

bool has_control_characters(std::string_view path);
// For lists: control characters, backslashes and bytes that are no UTF-8 become \xNN.
std::string escaped_path(std::string_view path);

// .jpg, .jpeg or .png, in any case.
bool is_image_name(std::string_view path);
// A part of it begins with '.', or is __MACOSX: what systems leave beside the data.
bool is_hidden_path(std::string_view path);

// "a/b/c.jpg": "a", "b/c.jpg"; without '/', the first is all of it and the second empty.
std::string_view first_part(std::string_view path);
std::string_view after_first_part(std::string_view path);
// "c.jpg" and "a/b" (empty if there is none).
std::string_view base_name(std::string_view path);
std::string_view folder_name(std::string_view path);

std::string lower_case(std::string_view text);

}  // namespace tern
