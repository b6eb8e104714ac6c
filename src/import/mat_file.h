// Just enough of MATLAB's level 5 MAT-files for ImageNet's meta.mat: one array of structs whose
// fields are numbers and texts. The format: mathworks.com/help/pdf_doc/matlab/matfile_format.pdf
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// A field's value: one number or one text is kept; others (matrices, cells) are left empty.
struct MatValue {
  bool is_number = false;
  double number = 0;
  bool is_text = false;
  std::string text;  // UTF-8
};

using MatStruct = std::map<std::string, MatValue>;

// The elements of the variable `name`, which must be an array of structs, in MATLAB's order. Both
// byte orders, compressed or not. `corrupt` for bytes that contradict themselves, `not_found` if
// there is no such variable, `exhausted` if it would unpack to more than 16 MiB. Takes memory in
// proportion to the bytes that are there, not to what they claim.
Result<std::vector<MatStruct>> read_mat_structs(BytesView file, std::string_view name);

}  // namespace tern
